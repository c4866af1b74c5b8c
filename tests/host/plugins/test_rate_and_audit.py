"""A caged plugin asks how often it may, and leaves a word in the ledger beside the call that it serves."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host.conftest import Home

from fixtures.ledger_entries import list_recent
from paddock import Config, open_host
from paddock.store.database import open_direct
from paddock_sdk.testing import FakeHost

PROGRAM = """
from paddock_sdk import Plugin

plugin = Plugin("{name}", "{version}", capabilities_used=["host:rate"])

@plugin.tool
def remind(who: str):
    allowed = plugin.host.rate.limit("reminders", 40).wait()
    if allowed["allowed"]:
        plugin.host.audit.write("reminded", who=who).wait()
    return allowed

plugin.run()
"""
REMIND = {"name": "remind", "description": "Remind", "effects": ["db_write"]}


@pytest.mark.req("S-14")
@pytest.mark.req("S-19", "audit")
async def test_a_plugin_keeps_to_its_rate_and_its_word_is_kept_with_the_call(tmp_path: Path) -> None:
    home = Home(tmp_path)
    home.install("bell", program=PROGRAM, capabilities=["host:rate"], tools=[REMIND])
    async with open_host(Config(home=home.path, environ={})) as host:
        first = await host.call("bell.remind", {"who": "ann"})
        second = await host.call("bell.remind", {"who": "bob"})

    assert first == {"allowed": True, "retry_after": 0.0}
    assert not second["allowed"] and 0 < second["retry_after"] <= 20
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_recent(tx, plugin="bell"))
    (word,) = (entry for entry in entries if entry.type == "plugin.audited")
    (call, _) = sorted((entry for entry in entries if entry.type == "call.ended"), key=lambda entry: entry.seq)
    assert (word.data["action"], word.data["details"]) == ("reminded", {"who": "ann"})
    assert word.request == call.request
    assert word.personal["principal"] == "local:operator"
    assert call.data["metrics"]["asked"] == {"audit.write": 1, "rate.limit": 1}


def test_the_fake_host_of_the_test_kit_has_both() -> None:
    fake = FakeHost(["host:rate"])
    assert fake.answer("paddock.rate.limit", {"bucket": "b", "cost": 60}) == {"allowed": True, "retry_after": 0.0}
    assert fake.answer("paddock.rate.limit", {"bucket": "b", "cost": 1}) == {"allowed": False, "retry_after": 1.0}
    fake.answer("paddock.audit.write", {"action": "reminded", "details": {"who": "ann"}})
    assert fake.audited == [("reminded", {"who": "ann"})]
