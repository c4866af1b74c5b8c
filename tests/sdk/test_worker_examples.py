"""The examples that are classes and functions run in the worker as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import ROOT
from tests.sdk.workers import Refused, Talk, working

from paddock_sdk.testing import EntryTester, FakeHost

EXAMPLES = ROOT / "examples"
PAGE = {"status": 200, "headers": {}, "body": "<title>On Bees</title><p>Bees carry pollen. The weather was fine.</p>"}


class Kept:
    """The host's services as dictionaries."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str], Any] = {}

    def __call__(self, method: str, params: dict[str, Any]) -> Any:
        match method.split(".")[1:]:
            case ["http", "fetch"]:
                return PAGE
            case ["rate", "limit"]:
                return {}
            case [family, "get"]:
                return {"value": self.values.get((family, params["key"]))}
            case [family, "put" | "set"]:
                self.values[family, params["key"]] = params["value"]
                return {}
        raise Refused(-32601, "not served")


def test_the_notes_are_listed_and_added_once_after_approval() -> None:
    entry = {"it": "shu_notes.plugin:Plugin"}
    with working(EXAMPLES / "shu-notes", entry, Kept(), ["host:storage"]) as notes:
        asked = {"idempotency_key": "k1"}
        assert notes.act("add_note", {"text": "fig"}, asked)["status"] == "pending_approval"
        approved = {**asked, "approved": True}
        assert notes.act("add_note", {"text": "fig"}, approved) == notes.act("add_note", {"text": "fig"}, approved)
        assert [note["text"] for note in notes.call({"contains": "FIG"})["data"]["notes"]] == ["fig"]
        (action,) = notes.describe()["it"]["actions"]
        assert action["requires_approval"] is True


def test_the_digest_fetches_once_and_finds_its_vendored_library() -> None:
    entry, granted = {"it": "web_digest.plugin:Plugin"}, ["host:http", "host:cache", "host:rate"]
    with working(EXAMPLES / "shu-web-digest", entry, Kept(), granted) as digest:
        call = {"urls": ["https://a.example"], "debug": True}
        first, second = digest.call(call), digest.call(call)
        assert first["data"] == second["data"] and first["data"]["pages"][0]["title"] == "On Bees"
        assert (first["cost"], second["cost"]) == ({"api_calls": 1}, {"api_calls": 0})
        assert "diagnostics" in second and "diagnostics" not in digest.call({"urls": ["https://a.example"]})


def test_the_operator_drafts_where_the_scope_is_there() -> None:
    entry = {"it": "email_draft.operator:execute"}
    payload = {"student": {"name": "A", "field": "b"}, "professor": {"name": "C"}}
    with working(EXAMPLES / "kernel-email-draft", entry, dialect="kernel", kind="operator") as operator:
        envelope = {"auth_context": {"scopes": ["email:generate"]}, "idempotency_key": "k"}
        assert operator.call(payload, envelope)["result"]["subject"] == "Graduate funding in b: A"
        assert operator.call(payload, {"auth_context": {}})["error"]["code"] == "PERMISSION_DENIED"


def test_the_agent_proposes_the_same_plan_in_every_fork() -> None:
    context = {"student": {"profile": {}}, "professor": {"entity": {"id": 9}}, "documents": {"cv": {"id": "x"}}}
    call = {"intent": {"intent_type": "Funding.Outreach.Email.Generate"}, "context": context}

    def propose(agent: Talk) -> Any:
        return agent.call(call, {"auth_context": {}, "trace_context": {}})

    entry = {"it": "switchboard.agent:propose"}
    with working(EXAMPLES / "kernel-switchboard", entry, dialect="kernel", kind="agent") as agent:
        first = propose(agent)
        assert first["kind"] == "plan_proposal"
        assert propose(agent) == first


def test_an_author_tries_a_class_without_any_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES / "shu-notes"))
    tester = EntryTester("shu_notes.plugin:Plugin", host=FakeHost(["host:storage"]))
    done = tester.act("add_note", {"text": "fig"}, {"idempotency_key": "k", "approved": True})
    assert done["status"] == "ok"
    assert tester.call() == {"status": "success", "data": {"notes": [done["result"]]}}
    assert tester.host.objects["notes/index"] == [done["result"]]
    assert tester.describe()["permissions"] == ["plugin:shu_notes"]


def test_the_test_kit_answers_for_other_services_and_lets_time_pass(tmp_path: Path) -> None:
    now = [0.0]

    class Plugin:
        async def execute(self, params: Any, context: Any, host: Any) -> Any:  # noqa: ARG002
            if not await host.cache.get("page"):
                page = await host.http.fetch({"url": params["url"]})
                await host.cache.set("page", page["body"], ttl=10)
            yield {"type": "progress", "progress": 1}
            yield {"status": "success", "data": await host.cache.get("page")}

    def fetched(asked: Any) -> Any:
        return {"body": asked["request"]["url"]}

    host = FakeHost(["host:cache", "host:http"], {"http.fetch": fetched}, lambda: now[0])
    tester = EntryTester(Plugin, host=host)
    for moment in (0.0, 9.0, 11.0):
        now[0] = moment
        assert tester.call({"url": "u"})["data"] == "u"
        assert tester.events == [{"type": "progress", "progress": 1}]
    assert [name for name, _ in host.asked].count("http.fetch") == 2
