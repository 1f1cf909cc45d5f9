"""Variants of a model in answers: their measurements as options, their sizes, and what they cost in quality."""
