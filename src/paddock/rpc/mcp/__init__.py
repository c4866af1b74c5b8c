"""The wire format of MCP: revisions, HTTP headers and server-sent events."""
