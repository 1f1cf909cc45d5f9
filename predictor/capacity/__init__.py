"""What fits: the largest batch, the best one, and the longest sequence, on each device in each precision."""
