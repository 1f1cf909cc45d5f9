"""Shared measurements: what leaves an installation, and the signed file in which it does."""
