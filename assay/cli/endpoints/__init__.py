"""`assay endpoint`: served models, and checks of what serves them."""
