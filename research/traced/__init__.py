"""Architectures of published measurements that have no catalogue entry, and their operator traces."""
