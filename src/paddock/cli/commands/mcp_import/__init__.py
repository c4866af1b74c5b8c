"""`paddock import`: MCP servers of other programs become plugins."""
