"""Tools and result pages of hardware vendors and runtimes."""
