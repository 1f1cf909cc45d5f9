"""Variants of a model: what was compressed how, and what that costs in quality."""
