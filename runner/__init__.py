"""The runner measures: models on platforms, one configuration in one child process, with or without a service."""
