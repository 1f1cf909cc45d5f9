"""The search of every page: what can be opened by name, how a text is matched with it, and the box in the page's head."""
