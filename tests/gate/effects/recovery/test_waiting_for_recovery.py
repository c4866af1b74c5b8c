"""Whoever comes with the key of an effect in doubt while a host finds out: they get what it found."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.gate.effects.recovery.test_recovering import count, with_plugin
from tests.gate.test_governed_calls import Office

from paddock.core.errors import Conflict, PaddockError
from paddock.gate import recovery


async def test_all_who_come_while_it_is_found_out_get_what_was_found(tmp_path: Path) -> None:
    office, asked, go = Office(tmp_path), asyncio.Event(), asyncio.Event()

    async def counted(**_: Any) -> dict[str, Any]:
        asked.set()
        await go.wait()
        return {"happened": True, "result": {"done": 1}}

    functions = {"count": lambda: office.do("count"), "counted": counted}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        async with asyncio.timeout(30):
            await asked.wait()
            callers = [asyncio.ensure_future(count(host)) for _ in range(4)]
            done, _ = await asyncio.wait(callers, timeout=1)
            assert not done, "they wait"
            go.set()
            assert await asyncio.gather(*callers) == [{"done": 1}] * 4
    assert office.done == ["count"]


async def test_who_has_waited_long_enough_is_told_that_the_host_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "MAX_RECOVERY_WAIT_S", 0.5)
    office, go = Office(tmp_path), asyncio.Event()

    async def counted(**_: Any) -> dict[str, Any]:
        await go.wait()
        return {"happened": True, "result": {"done": 1}}

    functions = {"count": lambda: office.do("count"), "counted": counted}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError) as failed:
            await count(host)
        with pytest.raises(Conflict) as doubted:
            await count(host)
        go.set()
    assert doubted.value.error_code == "effect.in_doubt"
    for told in (failed.value, doubted.value):
        assert "a running daemon determines the outcome" in told.hint
        assert "say so" not in told.hint
