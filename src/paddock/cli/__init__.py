"""The `paddock` command: one family of commands a file."""
