"""Predictor: how wrong it is, whether it knows, and what to measure next."""
