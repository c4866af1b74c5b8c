"""TODO: paddock.cli.client."""
