"""Verbs that answer questions."""
