"""Peak memory: what a configuration needs, how sure that is, and the chance that it fits."""
