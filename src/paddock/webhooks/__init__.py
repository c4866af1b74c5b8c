"""Ledger entries as CloudEvents for the outside: signed webhooks and live event streams."""
