"""Histories over HTTP: what changed in each, alerts about it, and the states that people give them."""
