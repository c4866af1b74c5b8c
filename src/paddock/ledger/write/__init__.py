"""TODO: paddock.ledger.write."""
