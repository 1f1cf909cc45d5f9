"""Trends: how a configuration changed, and what changed with it."""
