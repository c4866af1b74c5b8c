"""TODO: paddock.cli.commands.ledger."""
