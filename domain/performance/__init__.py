"""How fast a device can run work, and how fast it did: rooflines, energy, device state."""
