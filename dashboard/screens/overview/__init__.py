"""Overview: what is known, how fresh it is, and what got worse."""
