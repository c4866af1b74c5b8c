"""`execute` in Shu's shapes: what it takes, what it gives, and the envelope of what goes wrong."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, LocalConnection, daemon, eventually
from fixtures.packages import write_file
from fixtures.people import key_of

EXAMPLES = Path(__file__).parents[3] / "examples"

PLUGIN = '''
class Plugin:
    """Looks something up, as it says itself."""

    def get_schema(self):
        return {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}

    def get_output_schema(self):
        return {"type": "object", "properties": {"found": {"type": "array"}}, "required": ["found"]}

    async def execute(self, params, context, host):
        print("executed", params["query"])
        if params["query"] == "everything":
            return WHOLE
        data = {"lost": True} if params["query"] == "broken" else {"found": [params["query"]]}
        return {
            "status": "success",
            "data": data,
            "cost": {"api_calls": 1},
            "citations": [{"type": "web", "ref": "https://example.com", "label": "Example"}],
        }
'''
TICKER = """
class Plugin:
    async def execute(self, params, context, host):
        for number in range(3):
            yield {"type": "progress", "progress": number}
        yield {"status": "success", "data": {"ticks": 3}}
"""
WHOLE: dict[str, Any] = {
    "status": "success",
    "data": {"found": ["everything"]},
    "cost": {"tokens": 3, "api_calls": 1},
    "diagnostics": ["looked twice"],
    "skips": [{"id": "7", "name": "seven", "reason": "too_large", "details": {"size": 9, "max": 8}}],
    "citations": [{"type": "web", "ref": "https://example.com", "label": "Example"}],
    "next_cursor": "page-2",
}
MANIFEST = """
name: web_search
version: "1.0.0"
entrypoints:
  web_search: "web_search.plugin:Plugin"
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("execute")
    write_file(folder / "package" / "manifest.yaml", MANIFEST)
    write_file(folder / "package" / "web_search" / "__init__.py", "")
    write_file(folder / "package" / "web_search" / "plugin.py", f"WHOLE = {WHOLE!r}\n{PLUGIN}")
    write_file(folder / "ticker" / "manifest.yaml", MANIFEST.replace("web_search", "ticker"))
    write_file(folder / "ticker" / "ticker" / "__init__.py", "")
    write_file(folder / "ticker" / "ticker" / "plugin.py", TICKER)
    paddock = Paddock(folder / "home")
    sources = {"web_search": folder / "package", "ticker": folder / "ticker", "shu_notes": EXAMPLES / "shu-notes"}
    for name, source in sources.items():
        paddock("plugin", "install", source, "--yes")
        paddock("plugin", "enable", name)
    paddock.quickly("user", "add", "eve", "--role", "visitor")
    with daemon(paddock) as started:
        yield started


@pytest.mark.req("S-01", "execute")
@pytest.mark.req("S-06", "execute over HTTP")
@pytest.mark.parametrize("field", ["params", "parameters"])
def test_what_a_plugin_found_comes_as_its_tool_result(served: Daemon, field: str) -> None:
    answer = served.ask(
        "POST", "/plugins/web_search/execute", {field: {"query": "paddock"}, "user_context": {"user_id": "forged"}}
    )

    assert answer.status == 200, answer.body
    assert (answer.body["status"], answer.body["data"]) == ("success", {"found": ["paddock"]})
    assert answer.body["cost"] == {"api_calls": 1}
    assert answer.body["citations"][0]["label"] == "Example"
    recorded = served.ask("GET", f"/ledger/{answer.body['call_id']}").body["entries"]
    ended = next(entry for entry in recorded if entry["type"] == "call.ended")
    assert ended["facts"]["status"] == "succeeded"
    assert (ended["facts"] | ended["personal"])["payload_hash"]
    assert "forged" not in str(recorded), "who calls is known by the credential alone"


@pytest.mark.req("S-06", "permissions from the credential")
@pytest.mark.req("S-06", "denied before the plugin runs")
@pytest.mark.req("S-06", "audited")
def test_whose_key_permits_nothing_is_denied_before_the_plugin_runs_whatever_the_body_claims(served: Daemon) -> None:
    key = {"authorization": f"Bearer {key_of(served.paddock, 'eve')}"}
    claims = {"user_id": "local:root", "permissions": ["plugin:web_search"], "roles": ["operator"]}
    denied, allowed = (
        served.ask(
            "POST", "/plugins/web_search/execute", {"params": {"query": query}, "user_context": claims}, **headers
        )
        for query, headers in (("denied", key), ("allowed", {}))
    )

    assert (denied.status, denied.body["error"]["message"]["error"]) == (403, "policy_denied")
    assert allowed.status == 200

    def logged() -> str:
        return str(served.ask("GET", "/plugins/web_search/logs").body["lines"])

    eventually(lambda: "executed allowed" in logged(), "the plugin logs what it executes")
    assert "executed denied" not in logged()
    call = denied.body["instance"].rpartition("/")[2]
    (entry,) = served.ask("GET", f"/ledger/{call}").body["entries"]
    assert (entry["type"], entry["facts"]["status"]) == ("call.ended", "denied")
    assert entry["personal"]["principal"].startswith("key:")
    recorded = served.ask("GET", f"/ledger/{allowed.body['call_id']}").body["entries"]
    (ended,) = (one for one in recorded if one["type"] == "call.ended")
    hashes = [(one["facts"] | one["personal"])["payload_hash"] for one in (entry, ended)]
    assert all(hashes) and hashes[0] != hashes[1], "of the parameters that each was sent"


@pytest.mark.req("S-02")
def test_a_tool_result_has_every_field_of_its_envelope(served: Daemon) -> None:
    params = {"query": "everything"}
    quiet, loud = (
        served.ask("POST", "/plugins/web_search/execute", {"params": params | more}).body
        for more in ({}, {"debug": True})
    )

    assert {name: loud[name] for name in WHOLE} == WHOLE
    assert {name: quiet.get(name) for name in WHOLE} == WHOLE | {"diagnostics": None}, "which are for debugging"


@pytest.mark.req("S-01", "an async iterator is a stream")
def test_what_an_async_iterator_yields_is_an_event_stream_that_ends_with_its_result(served: Daemon) -> None:
    connection = LocalConnection(served.socket)
    headers = {"content-type": "application/json", "accept": "text/event-stream"}
    connection.request("POST", "/api/v1/plugins/ticker/execute", b'{"params": {}}', headers)
    answer = connection.getresponse()
    events = [json.loads(line[6:]) for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    connection.close()

    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [event["progress"] for event in events if "progress" in event] == [0, 1, 2]
    assert '"ticks": 3' in json.dumps(events[-1])


@pytest.mark.req("S-05")
def test_an_answer_that_breaks_its_own_schema_is_500_in_shus_envelope_and_recorded_as_failed(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/web_search/execute", {"params": {"query": "broken"}})

    assert answer.status == 500
    assert answer.body["code"] == "output_validation_error", "a problem body as everywhere"
    envelope = answer.body["error"]
    assert envelope["code"] == "HTTP_500"
    assert envelope["message"]["error"] == "output_validation_error" and envelope["message"]["message"]
    assert envelope["error_id"] == f"ERR-{answer.body['error_id']}"
    assert envelope["details"]["errors"][0]["path"] == "found"
    call = answer.body["instance"].rpartition("/")[2]
    recorded = served.ask("GET", f"/ledger/{call}").body["entries"]
    assert next(entry for entry in recorded if entry["type"] == "call.ended")["facts"]["status"] == "failed"


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/plugins/nobody/execute", {}, 404, "plugin.not_enabled"),
        ("/plugins/web_search/execute", {"params": {"query": 3}}, 400, "invalid_params"),
        ("/plugins/web_search/execute", {"params": [], "x": 1}, 400, "invalid_params"),
    ],
)
def test_every_refusal_has_both_forms(served: Daemon, path: str, body: object, status: int, code: str) -> None:
    answer = served.ask("POST", path, body)

    assert (answer.status, answer.body["error"]["code"]) == (status, f"HTTP_{status}"), answer.body
    assert answer.body["error"]["message"]["error"] == answer.body["code"]


def test_a_slip_in_the_name_of_a_plugin_is_answered_with_the_one_that_was_probably_meant(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/web_serach/execute", {"params": {"query": "oats"}})

    assert (answer.status, answer.body["code"]) == (404, "plugin.not_enabled")
    assert answer.body["hint"].startswith("did you mean 'web_search'?")
    assert answer.body["action"] == {"kind": "plugin.enable", "arguments": {"plugin": "web_serach"}}


@pytest.mark.req("S-21", "pending with a preview")
@pytest.mark.req("S-21", "effects only after approval")
def test_an_action_waits_for_a_person_with_its_preview_and_happens_once_they_said_yes(served: Daemon) -> None:
    path = "/plugins/shu_notes/actions/add_note"
    asked = served.ask("POST", path, {"args": {"text": "Buy milk"}})

    assert (asked.status, asked.body["status"]) == (202, "pending_approval")
    assert asked.body["preview"]["params"] == {"text": "Buy milk"}
    assert served.ask("POST", "/plugins/shu_notes/execute", {"params": {}}).body["data"]["notes"] == []
    served.ask("POST", f"/approvals/{asked.body['approval']}/approve", {})
    done = served.ask("POST", path, {"args": {"text": "Buy milk"}, "approval_token": asked.body["approval_token"]})
    assert (done.status, done.body["status"], done.body["action_id"]) == (200, "ok", asked.body["action_id"])
    notes = served.ask("POST", "/plugins/shu_notes/execute", {"params": {}}).body["data"]["notes"]
    assert len(notes) == 1
