"""Events on this machine's disk before they are sent."""
