"""The general route: any software on any device, from the sum of a model's kernels and what published rows teach beyond it."""
