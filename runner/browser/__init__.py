"""Real browsers: a page in one of them runs a model, and what it says becomes a measurement."""
