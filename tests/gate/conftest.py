"""What the tests of the door share."""

from __future__ import annotations

from fixtures.databases import database_address, postgres_address, postgres_server, sqlite_address

__all__ = ["database_address", "postgres_address", "postgres_server", "sqlite_address"]
