"""Kernels that tell devices apart: chosen for a device, measured one by one, and recorded as events."""
