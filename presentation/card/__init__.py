"""The card of a machine: what it is, its measured roofline, and five models on it beside like machines, made to be posted."""
