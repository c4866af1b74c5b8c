"""The MCP gateway: one MCP server in front of everything that a caller may use.

    bytes in → rpc.message.decode → Methods.serve (one call of the host) → bytes out

What a message means does not depend on how it came. `methods.py` answers requests; `conversation.py` is one client
that began with a handshake (revisions up to 2025-11-25), `stateless.py` one request of a client that needs none
(2026-07-28).
Two shells carry the messages: `http_app.py` for `/mcp`, and `lines.py` for a pair of streams:

    async with open_lines(gateway, tenant, context, write) as lines:   # `write(line)` takes a line without its end
        for each line that is read: lines.feed(line)           # answers come through `write` when they are ready

`gateway.py` puts the parts together. Nothing here knows who proves who calls: a `CallContext` comes with each request.
"""
