"""What is known of each cell of the compatibility matrix: states, claims, remedies."""
