"""TODO: paddock.cli.commands.identity."""
