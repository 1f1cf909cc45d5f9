"""Tools that measure vision and general PyTorch models."""
