"""Calls that the person at the machine makes: with every scope they need, and kept for a while."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from paddock import Config, open_host
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Denied, NotFound
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, RequestId
from paddock.gate.calls import recent_calls
from paddock.gate.calls.handle import CallHandle
from paddock.plugins.manage.enable import enable

EXAMPLE = Path(__file__).parents[3] / "examples" / "kernel-email-draft"
DRAFT: dict[str, Any] = {
    "student": {"name": "Ada Okafor", "field": "soil chemistry"},
    "professor": {"name": "Lindqvist", "topic": "peat"},
}
NAME = "Email.GenerateDraft"


async def test_the_person_at_the_machine_holds_every_scope_that_what_they_call_requires(home: Home) -> None:
    home.take(EXAMPLE)
    home.changing(lambda plugins: enable(plugins, NAME))
    async with open_host(Config(home=home.path, environ={})) as host:
        answers = [
            await patiently(host.call(NAME, DRAFT)),
            await patiently(host.calls.registry.start(NAME, "", DRAFT, host.operator_context("ada")).wait()),
        ]
        assert all("Professor Lindqvist" in answer["result"]["body"] for answer in answers)

        somebody = CallContext(Principal(PrincipalId("somebody")), RequestId("req_1"))
        with pytest.raises(Denied) as denied:
            await patiently(host.call(NAME, DRAFT, context=somebody))
        assert denied.value.error_code == "permission_denied"


async def test_a_call_that_ended_costs_the_same_however_many_are_kept(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_calls, "MAX_ENDED_CALLS", 20)
    sized: list[str] = []
    size = CallHandle.size

    def counted(live: CallHandle) -> int:
        sized.append(live.id)
        return size.__get__(live)

    monkeypatch.setattr(CallHandle, "size", property(counted))
    home.install()
    async with open_host(Config(home=home.path, environ={})) as host:
        made: list[CallHandle] = []
        for _ in range(50):
            made.append(host.calls.registry.start("parrot", "say", {"text": "x"}, host.operator_context(None)))
            await patiently(made[-1].wait())
        await patiently(host.drain())
        assert [host.calls.registry.find(live.id, DEFAULT_TENANT) for live in made[-20:]] == made[-20:]
        for live in made[:29]:
            with pytest.raises(NotFound):
                host.calls.registry.find(live.id, DEFAULT_TENANT)
        assert len(sized) <= 2 * len(made)
