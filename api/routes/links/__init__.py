"""Links to measure in a browser: made by an operator, opened by any device, and what its page sends back."""
