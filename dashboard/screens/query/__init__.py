"""Query: one SELECT over the documented views."""
