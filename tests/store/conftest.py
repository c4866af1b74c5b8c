"""Databases without any table: how tables come to be is what these tests are about."""

from __future__ import annotations

import pytest


@pytest.fixture
def postgres_address(empty_postgres_address: str) -> str:
    return empty_postgres_address
