"""TODO: paddock.cli.output."""
