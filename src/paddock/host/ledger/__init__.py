"""The ledger of a running host: reading, verification and webhooks."""
