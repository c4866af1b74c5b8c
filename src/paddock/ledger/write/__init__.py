"""Appending to the ledger: in a transaction, or through the background writer."""
