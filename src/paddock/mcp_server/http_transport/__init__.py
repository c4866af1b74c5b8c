"""TODO: paddock.mcp_server.http_transport."""
