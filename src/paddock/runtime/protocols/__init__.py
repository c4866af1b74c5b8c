"""What can run a plugin: a program that speaks our own protocol, Python code in a worker, an MCP server, a function."""
