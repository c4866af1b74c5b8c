"""What a plugin wants remembered of what it did stands in the ledger, as its own word."""

from __future__ import annotations

from pathlib import Path

import pytest

from paddock.capabilities.services.audit import MAX_ENTRIES_PER_S
from paddock.core.events.capabilities import PluginAudited
from paddock.manifest.model import PluginKind

from .stage import open_stage, plugin, wire_code

ANY = plugin("notes", ())  # nobody granted it anything
AGENT = plugin("idea", (), kind=PluginKind.AGENT)


@pytest.mark.req("S-09", "audit")
@pytest.mark.req("S-19", "audit")
async def test_every_plugin_may_leave_a_word(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        assert await stage.ask(ANY, "audit.write", action="reminded", details={"to": "ann"}) == {"written": True}
        assert await stage.ask(AGENT, "audit.write", action="thought") == {"written": True}

    kept = [event for event in stage.events["default"] if isinstance(event, PluginAudited)]
    assert [(event.name, event.action, event.details) for event in kept] == [
        ("notes", "reminded", {"to": "ann"}),
        ("idea", "thought", {}),
    ]


async def test_a_flood_is_cut_and_the_plugin_is_told(tmp_path: Path) -> None:
    async with open_stage(tmp_path) as stage:
        told = [(await stage.ask(ANY, "audit.write", action="x"))["written"] for _ in range(MAX_ENTRIES_PER_S + 5)]
        stage.clock.seconds += 1
        assert await stage.ask(ANY, "audit.write", action="x") == {"written": True}

    assert told == [True] * MAX_ENTRIES_PER_S + [False] * 5


@pytest.mark.parametrize(
    "params",
    [{}, {"action": ""}, {"action": 7}, {"action": "x" * 201}, {"action": "x", "details": []},
     {"action": "x", "details": {"a": "b" * 9_000}}],
)  # fmt: skip
async def test_what_cannot_be_kept_is_told(tmp_path: Path, params: dict[str, object]) -> None:
    async with open_stage(tmp_path) as stage:
        assert wire_code(await stage.refused(ANY, "audit.write", **params)) == -32602
