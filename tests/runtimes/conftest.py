"""A stage for every runtime."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.runtime.stage import Stage, open_stage

pytest.register_assert_rewrite("tests.runtimes.contract")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncGenerator[Stage, None]:
    async with open_stage(tmp_path) as opened:
        yield opened
