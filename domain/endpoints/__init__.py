"""Served models: what an endpoint promised, what it delivered, and what happened to it."""
