"""Does a platform do on this machine what Assay says of it? Checks that its owner runs, and posts."""

from runner.selftest.run import SelfTest, run_selftest

__all__ = ["SelfTest", "run_selftest"]
