"""Programs that benchmarks run as processes of their own; those that peers need run in the peers' environment."""
