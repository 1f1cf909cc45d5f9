"""What the parent and its child processes say to each other."""
