"""Several models and their loads: the cheapest set of machines that serves them all."""
