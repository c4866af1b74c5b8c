"""TODO: paddock.ledger.chain."""
