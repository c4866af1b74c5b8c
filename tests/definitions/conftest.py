"""An open plugin store on each engine, and tools as servers list them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.shelves import Shelf


@pytest.fixture
def shelf(tmp_path: Path, database_address: str) -> Iterator[Shelf]:
    """An open plugin store, on each engine in turn."""
    with Shelf.open(tmp_path, database_address) as opened:
        yield opened
