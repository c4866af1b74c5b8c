"""A command line with a home of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    """Commands against a fresh home."""
    return Paddock(tmp_path / "home")
