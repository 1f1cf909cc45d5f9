"""Served models: replicas in processes of their own, a pool under a budget of memory, and the routes that call them."""
