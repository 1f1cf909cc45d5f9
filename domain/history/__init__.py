"""Histories: what a figure or a test of one configuration was over time, and where it changed."""
