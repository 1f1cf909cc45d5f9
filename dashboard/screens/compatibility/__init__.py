"""Compatibility: does it run, does it run right, and what to try if not."""
