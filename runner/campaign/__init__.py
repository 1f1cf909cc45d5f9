"""A plan under way: what to measure, case by case, and the events that come of it."""
