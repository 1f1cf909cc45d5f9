"""Hardware: what it is, how close to its limit it runs, and what is known of it."""
