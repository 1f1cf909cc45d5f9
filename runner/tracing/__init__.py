"""The operators of one call: kinds, sizes and work."""
