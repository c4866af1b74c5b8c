"""Doctor looks at a real server."""

from __future__ import annotations

from fixtures.databases import postgres_address, postgres_server

__all__ = ["postgres_address", "postgres_server"]
