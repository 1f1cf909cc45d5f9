"""The route of reference: a model on a device, from the same work on other devices with the same software."""
