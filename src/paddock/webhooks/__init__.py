"""What the ledger keeps, told outward as CloudEvents: to webhooks, signed, and to whoever follows."""
