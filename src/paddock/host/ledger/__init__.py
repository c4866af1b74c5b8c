"""TODO: paddock.host.ledger."""
