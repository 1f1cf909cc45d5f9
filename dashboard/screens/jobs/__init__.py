"""Jobs: what waits, who works on it, and what failed."""
