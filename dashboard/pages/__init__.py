"""One folder a page: its view, what it asks the service, and its words."""
