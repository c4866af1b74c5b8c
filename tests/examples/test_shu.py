"""The Shu examples, imported as a worker would import them, with a small host in its place."""

from __future__ import annotations

from typing import Any

import pytest
from tests.examples.places import EXAMPLES, run_inside, schema_errors

from paddock.core.errors import Invalid
from paddock.manifest.read import read_package

# The host's services as plain dictionaries; what was asked of them is printed with the answers.
HOST = """
import asyncio, json, sys
class Cache(dict):
    async def get(self, key): return dict.get(self, key)
    async def set(self, key, value, ttl=None): self[key] = value
class Http:
    def __init__(self, pages): self.pages, self.asked = pages, []
    async def fetch(self, request):
        self.asked.append(request)
        return self.pages.get(request["url"], {"status": 404, "headers": {}, "body": ""})
class Rate:
    async def limit(self, bucket, cost): pass
class Storage(dict):
    async def get(self, reference): return dict.get(self, reference)
    async def put(self, reference, value): self[reference] = value
class Host: pass
given = json.load(sys.stdin)
host = Host()
"""
DIGEST = f"""{HOST}
from web_digest.plugin import Plugin
host.http, host.cache, host.rate = Http(given["pages"]), Cache(), Rate()
plugin = Plugin()
async def main():
    answers = [await plugin.execute(params, {{}}, host) for params in given["calls"]]
    print(json.dumps({{"answers": answers, "asked": host.http.asked, "input": plugin.get_schema(),
                      "output": plugin.get_output_schema(), "permission": plugin.requires_permission()}}))
asyncio.run(main())
"""
NOTES = f"""{HOST}
from shu_notes.plugin import Plugin
host.storage = Storage()
plugin = Plugin()
async def main():
    answers = []
    for name, args, context in given["steps"]:
        if name == "execute":
            answers.append(await plugin.execute(args, context, host))
        else:
            answers.append(await plugin.perform_action(name, args, context, host))
    print(json.dumps({{"answers": answers, "actions": await plugin.list_actions(), "stored": host.storage,
                      "output": plugin.get_output_schema()}}))
asyncio.run(main())
"""

PAGE = {
    "status": 200,
    "headers": {"Content-Type": "text/html; charset=utf-8"},
    "body": """<html><head><title>On  Bees</title><script>var bees = "bees bees";</script></head><body>
        <p>Bees carry pollen between flowers. The weather was fine.</p>
        <p>Flowers without bees carry no seed! Bees &amp; flowers need pollen.</p><p>1 2 3</p></body></html>""",
}
IMAGE = {"status": 200, "headers": {"content-type": "image/png"}, "body": "\x89PNG"}


def digest(*calls: dict[str, Any]) -> Any:
    pages = {"https://a.example/bees": PAGE, "https://a.example/picture": IMAGE}
    return run_inside("shu-web-digest", DIGEST, value={"pages": pages, "calls": calls})


def test_the_digest_keeps_the_most_telling_sentences_in_their_order() -> None:
    said = digest({"urls": ["https://a.example/bees"], "sentences": 2})
    (answer,) = said["answers"]

    assert answer["status"] == "success"
    assert schema_errors(said["output"], answer["data"]) == []
    (page,) = answer["data"]["pages"]
    assert page["title"] == "On Bees"
    assert len(page["sentences"]) == 2 and "The weather was fine." not in page["sentences"]
    assert answer["cost"] == {"api_calls": 1}
    assert answer["citations"] == [{"type": "web", "ref": "https://a.example/bees", "label": "On Bees"}]
    assert "diagnostics" not in answer
    assert said["asked"] == [{"method": "GET", "url": "https://a.example/bees"}]


def test_a_page_that_cannot_be_read_is_named_and_the_others_are_digested() -> None:
    urls = ["https://a.example/gone", "https://a.example/picture", "https://a.example/bees"]
    (answer,) = digest({"urls": urls})["answers"]
    assert [(skip["id"], skip["reason"]) for skip in answer["skips"]] == [
        ("https://a.example/gone", "network"),
        ("https://a.example/picture", "unsupported_format"),
    ]
    assert [page["url"] for page in answer["data"]["pages"]] == ["https://a.example/bees"]


def test_a_page_is_fetched_once_while_it_is_in_the_cache() -> None:
    call = {"urls": ["https://a.example/bees"], "op": "titles", "debug": True}
    said = digest(call, call)
    assert len(said["asked"]) == 1
    assert said["answers"][1]["data"]["pages"][0]["sentences"] == []
    assert said["answers"][1]["diagnostics"]


def test_the_schema_that_the_host_reads_from_the_source_is_the_one_the_plugin_gives() -> None:
    manifest = read_package(EXAMPLES / "shu-web-digest").single()
    said = digest()
    assert manifest.callables[0].input_schema == said["input"]
    assert said["permission"] == "plugin:web_digest"
    assert (manifest.feeds.default_op, manifest.feeds.allowed_ops) == ("digest", ("digest",))
    assert manifest.feeds.default_op in said["input"]["properties"]["op"]["enum"]


def test_without_its_vendored_library_the_plugin_does_not_load() -> None:
    hidden = "import sys; sys.path = [p for p in sys.path if not p.endswith('vendor')]\n"
    program = hidden + "try:\n import web_digest.plugin\nexcept ModuleNotFoundError as e:\n print('\"' + e.name + '\"')"
    assert run_inside("shu-web-digest", program) == "plaintext"


def test_a_note_is_added_after_approval_and_once() -> None:
    asked = {"idempotency_key": "k1"}
    approved = {**asked, "approved": True}
    said = run_inside(
        "shu-notes",
        NOTES,
        value={
            "steps": [
                ("add_note", {"text": "Water the fig"}, asked),
                ("execute", {}, {}),
                ("add_note", {"text": "Water the fig"}, approved),
                ("add_note", {"text": "Water the fig"}, approved),
                ("add_note", {"text": "Buy string"}, {"idempotency_key": "k2", "approved": True}),
                ("execute", {"contains": "FIG"}, {}),
                ("burn_notes", {}, approved),
            ]
        },
    )
    pending, before, first, again, _, found, unknown = said["answers"]

    assert (pending["status"], pending["preview"]) == ("pending_approval", {"add": "Water the fig"})
    assert before["data"] == {"notes": []}
    assert first == again and first["status"] == "ok"
    assert len(said["stored"]["notes/index"]) == 2
    assert [note["text"] for note in found["data"]["notes"]] == ["Water the fig"]
    assert schema_errors(said["output"], found["data"]) == []
    assert unknown["status"] == "error"
    (action,) = said["actions"]
    assert set(action) == {"name", "description", "params_schema", "required_scopes", "requires_approval"}
    assert action["requires_approval"] is True


def test_a_copy_of_the_plugin_that_asks_the_caller_for_credentials_is_refused(tmp_path: Any) -> None:
    source = EXAMPLES / "shu-notes"
    (tmp_path / "shu_notes").mkdir()
    (tmp_path / "manifest.py").write_text((source / "manifest.py").read_text())
    (tmp_path / "shu_notes/plugin.py").write_text(
        (source / "shu_notes/plugin.py").read_text().replace('"contains": {', '"user_email": {')
    )
    with pytest.raises(Invalid) as caught:
        read_package(tmp_path).single()
    assert [problem.code for problem in caught.value.problems] == ["auth_field"]
