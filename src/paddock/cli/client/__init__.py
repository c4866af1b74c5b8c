"""How commands reach a host: through the running daemon, or in this process."""
