"""TODO: paddock.cli.commands."""
