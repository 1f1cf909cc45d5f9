"""Runs: what was measured, how far to trust it, and what runs now."""
