"""Hostile inputs: families of them, how each is played against a running service, and the table of what each got."""
