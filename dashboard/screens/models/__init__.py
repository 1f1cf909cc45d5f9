"""Models: what one is, where it runs and how fast, and what is not known of it."""
