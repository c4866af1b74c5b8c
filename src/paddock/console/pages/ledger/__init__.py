"""Pages of the ledger: entries, timelines, export and verification."""
