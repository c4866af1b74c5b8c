"""n8n takes events and calls tools, with the workflows of the examples: the real one, from the npm registry."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.webhooks.n8n import n8n_in
from tests.webhooks.receiver import signature

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually

pytestmark = pytest.mark.n8n

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def workflow(name: str, **instead: str) -> dict[str, Any]:
    """One of the examples, with what a person fills in."""
    text = (EXAMPLES / "n8n" / f"{name}.json").read_text()
    for words, value in instead.items():
        assert words in text, words
        text = text.replace(words, value)
    return json.loads(text)


@pytest.mark.req("O-16", "n8n")
def test_n8n_takes_signed_events_and_calls_a_tool_under_the_same_rules(tmp_path: Path) -> None:
    n8n = n8n_in(tmp_path / "n8n")
    paddock = Paddock(
        tmp_path / "home",
        more={
            "PADDOCK_EVENTS_PRIVATE_RECEIVERS": f"127.0.0.1:{n8n.port}",
            "PADDOCK_EVENTS_FIRST_PAUSE_S": "0.1",
        },
    )
    paddock("plugin", "install", EXAMPLES / "greeter", "--yes")
    paddock("plugin", "enable", "greeter")
    paddock("user", "add", "n8n")
    token = paddock("apikey", "add", "n8n", "--json").json["token"]
    address = f"http://127.0.0.1:{n8n.port}/webhook/paddock-events"
    hook = paddock("webhook", "add", address, "--type", "plugin.tool_invoked", "--json").json
    with daemon(paddock) as served:
        url = served.told(event="ready")["url"]
        n8n.keep_key("paddockKey000001", "Paddock", token)
        n8n.take_over(workflow("paddock-events", whsec_PASTE_IT_HERE=hook["secret"]))
        n8n.take_over(workflow("paddock-tool", **{"http://127.0.0.1:7433": url}))
        with n8n.running():
            greeting = json.dumps({"name": "Ann"}).encode()
            eventually(lambda: n8n.post("paddock-tool", greeting)[0] != 404, "n8n does not know the workflow")
            status, said = n8n.post("paddock-tool", greeting)
            assert (status, b"Ann" in said) == (200, True), said

            def shown() -> dict[str, Any]:
                return paddock.quickly("webhook", "show", hook["id"], "--json").json

            eventually(lambda: shown()["delivered"] >= 1, "n8n did not take the event")
            assert (shown()["reason"], shown()["dead"]) == (None, 0)

            body = json.dumps({"specversion": "1.0", "id": "evt_1", "type": "made.up"}).encode()
            stamp = str(int(time.time()))
            headers = {"webhook-id": "evt_1", "webhook-timestamp": stamp, "webhook-signature": "v1,AAAA"}
            assert n8n.post("paddock-events", body, headers)[0] == 500, "nothing is believed that is not signed"
            headers["webhook-signature"] = signature(hook["secret"], "evt_1", stamp, body)
            status, passed_on = n8n.post("paddock-events", body, headers)
            assert (status, json.loads(passed_on)["type"]) == (200, "made.up")

    calls = paddock("ledger", "tail", "--type", "call.ended", "--json").json["entries"]
    assert calls and all(one["personal"]["principal"].startswith("key:") for one in calls), "each in the key's name"
