"""Shared measurements: bundles of others as imported rows, whom to trust, and what is held back."""
