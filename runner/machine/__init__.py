"""This machine: devices, memory, software, and what really works on it."""
