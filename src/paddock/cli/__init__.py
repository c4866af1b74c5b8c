"""The `paddock` command line: one module per family of commands."""
