"""Queries over ledger entries, and the rules for which entries count as failures."""
