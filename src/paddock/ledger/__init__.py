"""The audit ledger: one hash chain per tenant, anchored by signed checkpoints outside the database."""
