"""From a model's name or files to a module with inputs."""
