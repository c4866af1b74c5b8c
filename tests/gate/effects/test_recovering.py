"""What was in doubt is found out in the way that its plugin declares. On a whole host, with functions as a plugin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gate.test_governed_calls import ANN, Office, made_by, tool

from paddock.core.errors import Conflict, PaddockError
from paddock.host.host import Host

pytestmark = pytest.mark.req("K-08")

PROMISED = {"type": "object", "properties": {"done": {"type": "integer"}}, "required": ["done"]}


@asynccontextmanager
async def with_plugin(office: Office, functions: dict[str, Callable[..., Any]], **said: Any) -> AsyncGenerator[Host]:
    """A host whose plugin has a tool that answers wrongly at first, and one that looks."""
    tools = [tool("count", "db_write", output_schema=PROMISED, **said), tool("counted", "read_only")]
    manifest = {"paddock": 1, "name": "counter", "version": "1.0.0", "description": "Counts", "tools": tools}
    async with office.open() as host:
        await host.embed(manifest, functions)
        yield host


async def count(host: Host) -> Any:
    return await host.call("counter.count", {}, context=made_by(ANN), idempotency_key="k1")


async def known(host: Host) -> Any:
    """What is answered under the key once it is not in doubt any more."""
    async with asyncio.timeout(30):
        while True:
            try:
                return await count(host)
            except Conflict as error:
                assert error.error_code == "effect.in_doubt"
                await asyncio.sleep(0.02)


async def test_a_probe_that_says_yes_settles_it_and_its_word_is_the_answer(tmp_path: Path) -> None:
    office, asked = Office(tmp_path), list[Any]()

    def counted(idempotency_key: str, params: dict[str, Any]) -> dict[str, Any]:
        asked.append((idempotency_key, params))
        return {"happened": True, "result": {"done": 1}}

    functions = {"count": lambda: office.do("count"), "counted": counted}
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}
    assert office.done == ["count"]
    assert asked == [("k1", {})]
    assert [entry.data["resolution"] for entry in office.ledger() if entry.type == "effect.resolved"] == ["probe"]


async def test_a_probe_that_says_no_lets_it_be_made_again_under_its_key(tmp_path: Path) -> None:
    office, answers = Office(tmp_path), [{"wrong": True}, {"done": 1}]
    functions = {"count": lambda: answers.pop(0), "counted": lambda idempotency_key, params: {"happened": False}}  # noqa: ARG005
    async with with_plugin(office, functions, recovery="probe", probe="counted") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}
    assert answers == []


async def test_what_the_other_side_knows_by_its_key_is_made_again(tmp_path: Path) -> None:
    office, answers = Office(tmp_path), [{"wrong": True}, {"done": 1}]
    functions = {"count": lambda: answers.pop(0), "counted": dict}
    async with with_plugin(office, functions, recovery="native_key") as host:
        with pytest.raises(PaddockError):
            await count(host)
        assert await known(host) == {"done": 1}
    assert answers == []
    assert [entry.data["resolution"] for entry in office.ledger() if entry.type == "effect.resolved"] == ["native_key"]
