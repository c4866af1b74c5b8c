"""Calls that wait for a person come to exactly one end, whatever happens to their rules, callers, plugins and host."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gate.test_governed_calls import ANN, Office, held, outcome

pytestmark = pytest.mark.req("S-21")

NOTES_ARE_ASKED_ABOUT = (
    '@id("notes-are-asked-about") @text("Notes are asked about.") @approval("gate")\n'
    'forbid (principal, action == Action::"callUnattended", resource == Callable::"mail.note");'
)


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


# --- a yes is used once, whatever the rules say by then -----------------------------------------------------------------


async def test_a_yes_that_is_not_needed_any_more_is_used_all_the_same_and_the_call_made_once(office: Office) -> None:
    office.rule(NOTES_ARE_ASKED_ABOUT)
    async with office.open() as host:
        waits = await held(host, "mail.note")
        next((office.home / "policies").iterdir()).unlink()
        await host.rules.look()
        await host.approving.approve(waits["approval"], ANN)

        assert (await outcome(host, waits["call_id"]))["status"] == "succeeded"
        assert (await host.approving.find("default", waits["approval"]))["state"] == "consumed"
    for _ in range(2):
        async with office.open() as host:
            assert host.calls.waiting == host.calls.running == 0

    assert office.done == ["note"]
    (started,) = [call for call in office.calls() if call["type"] == "call.started"]
    assert (started["decision"], started["approval"]) == ("allow", waits["approval"])


async def test_a_yes_that_is_not_needed_any_more_is_still_to_one_exact_thing(office: Office) -> None:
    office.rule(NOTES_ARE_ASKED_ABOUT)
    async with office.open() as host:
        waits = await held(host, "mail.note")
    next((office.home / "policies").iterdir()).unlink()
    async with office.open(version="2.0.0") as host:
        await host.approving.approve(waits["approval"], ANN)

        ended = await outcome(host, waits["call_id"])
        assert ended["error"]["code"] == "approval.changed"
        assert ended["error"]["details"]["changed"] == ["the plugin's files"]
        assert (await host.approving.find("default", waits["approval"]))["state"] == "voided"
    assert office.done == []
