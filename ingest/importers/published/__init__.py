"""Tables that others published of whole models, flattened into CSV: one module a source."""
