"""Models that are served: start a server, and create, call, scale and remove its endpoints."""
