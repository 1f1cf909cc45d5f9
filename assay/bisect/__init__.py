"""Which commit or package version made it slower: each is built and measured apart, until the first bad one is certain."""
