"""A stage for every test of the supervisor."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.runtime.stage import Stage, open_stage
from tests.runtime.witness import Bystander, open_bystander


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as opened:
        yield opened


@pytest.fixture
async def bystander(stage: Stage) -> AsyncGenerator[Bystander, None]:
    """A healthy plugin beside the one that is looked at; when the test is over it must not have noticed anything."""
    healthy = await open_bystander(stage)
    yield healthy
    await healthy.unmoved()
