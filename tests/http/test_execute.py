"""`execute` in Shu's shapes: what it takes, what it gives, and the envelope of what goes wrong."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import write_file

EXAMPLES = Path(__file__).parents[2] / "examples"

PLUGIN = '''
class Plugin:
    """Looks something up, as it says itself."""

    def get_schema(self):
        return {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}

    def get_output_schema(self):
        return {"type": "object", "properties": {"found": {"type": "array"}}, "required": ["found"]}

    async def execute(self, params, context, host):
        data = {"lost": True} if params["query"] == "broken" else {"found": [params["query"]]}
        return {
            "status": "success",
            "data": data,
            "cost": {"api_calls": 1},
            "citations": [{"type": "web", "ref": "https://example.com", "label": "Example"}],
        }
'''
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
    write_file(folder / "package" / "web_search" / "plugin.py", PLUGIN)
    paddock = Paddock(folder / "home")
    for source, name in ((folder / "package", "web_search"), (EXAMPLES / "shu-notes", "shu_notes")):
        paddock("plugin", "install", source, "--yes")
        paddock("plugin", "enable", name)
    with daemon(paddock) as started:
        yield started


@pytest.mark.req("S-06")
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


@pytest.mark.req("S-06")
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


@pytest.mark.req("S-06")
def test_a_slip_in_the_name_of_a_plugin_is_answered_with_the_one_that_was_probably_meant(served: Daemon) -> None:
    answer = served.ask("POST", "/plugins/web_serach/execute", {"params": {"query": "oats"}})

    assert (answer.status, answer.body["code"]) == (404, "plugin.not_enabled")
    assert answer.body["hint"].startswith("did you mean 'web_search'? If not: paddock plugin enable web_serach")


@pytest.mark.req("S-21")
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
