"""Persistent storage: rows in SQLite or PostgreSQL, and content-addressed blobs."""
