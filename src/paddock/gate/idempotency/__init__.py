"""Idempotency records: which effect has happened under which key."""
