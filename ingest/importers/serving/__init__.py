"""Tools that measure served or generating language models."""
