"""Assay for programs that reason: an MCP server whose tools ask what the command line asks."""
