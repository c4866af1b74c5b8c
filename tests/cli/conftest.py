"""A command line with a home of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.databases import database_address, postgres_address, postgres_server, sqlite_address

__all__ = ["database_address", "postgres_address", "postgres_server", "sqlite_address"]


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    """Commands against a fresh home."""
    return Paddock(tmp_path / "home")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Where a test writes the packages that it installs."""
    folder = tmp_path / "source"
    folder.mkdir()
    return folder
