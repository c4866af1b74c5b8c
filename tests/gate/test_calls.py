"""Calls that can be followed: nothing told is lost, and what is kept is bounded by its size."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from paddock.core.call import CallContext, Principal
from paddock.core.ids import DEFAULT_TENANT, CallId, Digest, PluginName, PrincipalId, RequestId
from paddock.gate.calls.handle import MAX_EVENT_BYTES, MAX_RETAINED_EVENT_BYTES, CallHandle
from paddock.gate.catalogue.catalogue import Catalogue
from paddock.gate.catalogue.entry import CallableSchemas, CatalogueEntry
from paddock.manifest.model import CallableForm, CallableSpec, Dialect, Manifest
from paddock.runtime.deployment import InstanceKey

CONTEXT = CallContext(principal=Principal(PrincipalId("local:tester")), request=RequestId("req_1"))


def entry(name: str, *callables: str, aliases: tuple[str, ...] = ()) -> CatalogueEntry:
    specs = tuple(CallableSpec(one, CallableForm.METHOD) for one in callables)
    manifest = Manifest(PluginName(name), "1.0.0", Dialect.NATIVE, callables=specs)
    key = InstanceKey(DEFAULT_TENANT, manifest.name, Digest("sha256:1"))
    return CatalogueEntry(key, manifest, {one: CallableSchemas({}, {}) for one in callables}, aliases)


def call() -> CallHandle:
    target = Catalogue([entry("notes", "notes.add")]).find("notes.notes.add")
    return CallHandle(CallId("call_1"), target, CONTEXT, datetime(2026, 1, 1, tzinfo=UTC), lambda _: None)


async def test_what_is_told_while_a_follower_is_busy_still_reaches_it_when_the_call_has_ended_meanwhile() -> None:
    live = call()
    live.add_event({"number": 1})
    heard: list[Mapping[str, Any]] = []
    async for event in live.events():
        heard.append(event.data)
        if event.number == 1:  # the follower is slow: two more come, and the end
            live.add_event({"number": 2})
            live.add_event({"number": 3})
            live.end("succeeded", datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    assert [event["number"] for event in heard] == [1, 2, 3]


async def test_a_follower_that_comes_later_gets_what_is_kept_after_the_event_it_knows() -> None:
    live = call()
    for number in range(300):
        live.add_event({"number": number})
    live.end("succeeded", datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC))
    heard = [event.number async for event in live.events(after=290)]
    assert heard == list(range(291, 301))
    assert len([event.number async for event in live.events()]) == 256


def test_a_call_keeps_only_so_many_bytes_of_events_and_none_that_is_huge() -> None:
    live = call()
    for _ in range(100):
        live.add_event({"text": "x" * (MAX_EVENT_BYTES - 100)})
    live.add_event({"text": "x" * (2 * MAX_EVENT_BYTES)})
    assert MAX_RETAINED_EVENT_BYTES / 2 < live.size <= MAX_RETAINED_EVENT_BYTES


@pytest.mark.parametrize("order", [0, 1])
def test_a_plugins_own_name_comes_before_an_alias_of_another_whatever_the_order(order: int) -> None:
    entries = [entry("first", "do.it", aliases=("second",)), entry("second", "do.it")]
    found = Catalogue(entries[:: -1 if order else 1])
    assert found.find("second.do.it").key.plugin == "second"
    assert found.find_callable("second", "do.it").key.plugin == "second"
