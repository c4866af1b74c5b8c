"""TODO: paddock.ledger.read."""
