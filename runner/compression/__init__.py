"""Compression of a model into variants: recipes, the tools that carry them out, and the folder of a variant."""
