"""Variants of models over HTTP, and what served models deliver beside their promise."""
