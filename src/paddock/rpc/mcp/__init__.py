"""TODO: paddock.rpc.mcp."""
