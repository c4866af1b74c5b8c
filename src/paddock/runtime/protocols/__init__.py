"""Protocol adapters: our native protocol, Python code in a worker, MCP servers and embedded functions."""
