"""JSON-RPC 2.0, one message a line: messages, framing, peers, and the transports between them."""
