"""Meters of power and energy, and how they are read while a series is taken. What readings mean: `domain.performance.energy`."""
