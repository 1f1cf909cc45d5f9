"""Verbs that measure, verify and send."""
