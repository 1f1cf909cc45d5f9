"""Verbs that serve and show how a service stands."""
