"""The MCP server: one endpoint in front of everything that a caller may use.

    bytes in → rpc.message.decode → McpMethods.dispatch (one call of the host) → bytes out

The meaning of a message does not depend on its transport. `methods.py` answers requests; `server_session.py` is a
client that started with a handshake (revisions up to 2025-11-25), `stateless.py` a single request of a client that
needs none (2026-07-28).
Two transports carry the messages: `http_transport/` for `/mcp`, and `stdio_transport.py` for a pair of streams:

    async with open_stdio_transport(server, tenant, context, write) as transport:  # `write(line)`, without newline
        for each line that is read: transport.receive_line(line)     # responses come through `write` when ready

`server.py` composes the parts. Authentication is not done here: a `CallContext` comes with each request.
"""
