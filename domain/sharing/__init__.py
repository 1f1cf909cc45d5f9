"""What goes between installations: the signed file of shared measurements, and what may come from a peer."""
