"""HTTP server, security and routing shared by the API, the console and the MCP endpoint."""
