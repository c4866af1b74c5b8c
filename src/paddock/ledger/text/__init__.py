"""Labels and sentences that describe ledger entries to people."""
