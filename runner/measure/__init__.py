"""Time, memory, energy and outputs of one case."""
