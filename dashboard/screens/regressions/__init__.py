"""Regressions: what got worse, why, and who looks at it."""
