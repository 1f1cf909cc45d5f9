"""Verbs that bring data in, keep it and take it out."""
