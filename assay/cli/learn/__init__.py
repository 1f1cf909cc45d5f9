"""Verbs of the predictor."""
