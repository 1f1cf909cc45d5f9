"""The chance that a configuration runs, is not supported, runs out of memory, or fails otherwise."""
