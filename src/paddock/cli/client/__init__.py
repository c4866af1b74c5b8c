"""Access to a host for commands: through the running daemon, or in this process."""
