"""From traces and configurations to the numbers that are learned from."""
