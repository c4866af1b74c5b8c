"""A wire whose other end is a FakeHost: what the plugin asks is answered before it waits for it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import HostGone, PluginFault
from paddock_sdk.framing import Lines
from paddock_sdk.testing.fake_host import FakeHost


class CallOutput(NamedTuple):
    """What came out of one call."""

    answer: JsonObject | None
    events: list[JsonObject]
    notifications: list[tuple[str, JsonObject]]


class MemoryLines(Lines):
    """Lines that go nowhere but to the host in memory, and are sorted there."""

    def __init__(self, host: FakeHost, namespace: str) -> None:
        super().__init__(-1, -1)
        self._host = host
        self._event_method = f"{namespace}.event"
        self._incoming: list[Any] = []
        self._output = CallOutput(None, [], [])

    def take_output(self) -> CallOutput:
        """What was said since the last time."""
        said, self._output = self._output, CallOutput(None, [], [])
        return said

    def read(self) -> list[Any]:
        if not self._incoming:
            raise HostGone  # nothing will come: everything is answered at once
        incoming, self._incoming = self._incoming, []
        return incoming

    def arrived(self) -> bool:
        return bool(self._incoming)

    def _send(self, text: str) -> None:
        message: JsonObject = json.loads(text)
        if "method" not in message:
            self._output = self._output._replace(answer=message)
        elif "id" in message:
            self._incoming.append(self._answer_request(message))
        elif message["method"] == self._event_method:
            self._output.events.append(message["params"]["event"])
        else:
            self._output.notifications.append((message["method"], message["params"]))

    def _answer_request(self, question: JsonObject) -> JsonObject:
        own = {name: value for name, value in question["params"].items() if name != "_call"}
        try:
            # Through JSON, as everything that a real host answers.
            result = json.loads(json.dumps(self._host.answer(question["method"], own)))
        except PluginFault as fault:
            return {"jsonrpc": "2.0", "id": question["id"], "error": fault.to_error()}
        return {"jsonrpc": "2.0", "id": question["id"], "result": result}


def unwrap_result(answer: JsonObject | None) -> Any:
    """The result of an answer.

    Raises:
        PluginFault: it is an error.
    """
    if answer is None:
        raise PluginFault("nothing was answered")
    if "error" in answer:
        error = answer["error"]
        raise PluginFault(error["message"], error.get("data"), code=error["code"])
    return answer["result"]
