"""Compare: rows side by side, with what differs before any number."""
