"""Measures what is already served: requests to an endpoint under a stated load, timed token by token."""
