"""Two sides of a comparison and what changed between them."""
