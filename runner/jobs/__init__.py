"""The worker: it claims jobs of the service's queue, runs each as a child, and sends what was measured."""
