"""Kernels: how long one operator takes on a device, learned across devices, and models as sums of them."""
