"""What the host says while a handler looks at nothing: somebody else looks, as long as a call runs."""

from __future__ import annotations

import queue
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import PATIENCE, gate
from tests.sdk.workers import shu

from paddock_sdk.watch import Watch

# Waits at a pipe for a line that opens it, and looks at nothing meanwhile.
DEAF = """
class Plugin:
    def execute(self, params, context, host):
        if not params.get("deaf"):
            return host.cache.get("a").wait()
        host.cache.get("begun")  # asked, and not waited for: nothing is read from here on
        with open("gate") as gate:
            return gate.readline()
"""


def holds_nothing(_method: str, _params: dict[str, Any]) -> Any:
    return {"value": None}


@pytest.mark.req("G-28", "python method routing")
def test_a_call_that_waits_in_a_worker_behind_one_that_never_looks_is_cancelled_at_once(tmp_path: Path) -> None:
    with gate(tmp_path) as let_go, shu(tmp_path, DEAF, holds_nothing, capabilities=["host:cache"]) as plugin:
        running = plugin.begin({"deaf": True})
        assert plugin.wire.receive()["params"]["key"] == "begun"
        waiting, kept = plugin.begin(), plugin.begin()
        plugin.wire.tell("paddock.cancel", {"id": waiting})
        assert plugin.until_answered(waiting)["error"] == {"code": -32000, "message": "cancelled"}

        let_go()
        assert plugin.until_answered(running)["result"]["data"] == "go\n"
        assert "result" in plugin.until_answered(kept)


@pytest.mark.req("G-28", "python health response")
def test_a_ping_is_answered_while_a_handler_looks_at_nothing(tmp_path: Path) -> None:
    with gate(tmp_path) as let_go, shu(tmp_path, DEAF, holds_nothing, capabilities=["host:cache"]) as plugin:
        running = plugin.begin({"deaf": True})
        assert plugin.wire.receive()["params"]["key"] == "begun"
        assert plugin.wire.call("ping") == {"status": "ok"}

        let_go()
        assert plugin.until_answered(running)["result"]["data"] == "go\n"


def test_the_watcher_rests_when_no_call_runs_and_is_woken_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock_sdk.watch.A_WHILE", 0.001)
    looks: queue.Queue[None] = queue.Queue()

    def glance() -> bool:
        looks.put(None)
        return False

    watch = Watch(glance)
    for _ in range(3):
        watch.call_begins()
        looks.get(timeout=PATIENCE)
        with pytest.raises(queue.Empty):
            while True:
                looks.get(timeout=0.5)  # silence for far longer than from one look to the next
    watch.end()
