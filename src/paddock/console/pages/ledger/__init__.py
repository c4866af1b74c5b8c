"""TODO: paddock.console.pages.ledger."""
