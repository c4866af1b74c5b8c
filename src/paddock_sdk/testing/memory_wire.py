"""A connection to a FakeHost: each request is answered before the plugin waits for it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from paddock_sdk.call import JsonObject
from paddock_sdk.faults import HostGone, PluginFault
from paddock_sdk.framing import Lines
from paddock_sdk.testing.fake_host import FakeHost


class CallOutput(NamedTuple):
    """The output of one call."""

    answer: JsonObject | None
    events: list[JsonObject]
    notifications: list[tuple[str, JsonObject]]


class MemoryLines(Lines):
    """Sends every message to the in-memory host, and collects the plugin's output."""

    def __init__(self, host: FakeHost, namespace: str) -> None:
        super().__init__(-1, -1)
        self._host = host
        self._event_method = f"{namespace}.event"
        self._incoming: list[Any] = []
        self._output = CallOutput(None, [], [])

    def take_output(self) -> CallOutput:
        """Return the output since the last call of this method."""
        output, self._output = self._output, CallOutput(None, [], [])
        return output

    def read(self) -> list[Any]:
        if not self._incoming:
            raise HostGone  # nothing more will come: everything is answered at once
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

    def _answer_request(self, request: JsonObject) -> JsonObject:
        params = {name: value for name, value in request["params"].items() if name != "_call"}
        try:
            # Through JSON, like every answer of a real host.
            result = json.loads(json.dumps(self._host.answer(request["method"], params)))
        except PluginFault as fault:
            return {"jsonrpc": "2.0", "id": request["id"], "error": fault.to_error()}
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def unwrap_result(answer: JsonObject | None) -> Any:
    """Return the result of a response.

    Raises:
        PluginFault: it is an error.
    """
    if answer is None:
        raise PluginFault("nothing was answered")
    if "error" in answer:
        error = answer["error"]
        raise PluginFault(error["message"], error.get("data"), code=error["code"])
    return answer["result"]
