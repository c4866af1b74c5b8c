"""The simulated user's HTTP client: makes calls with an API key and follows them to their end."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from paddock.core.secret import Secret

_API_PREFIX = "/api/v1"
_RESPONSE_TIMEOUT_S = 60.0


class DemoCallResponse(Struct, frozen=True):
    """The response to a call: the call itself, or an error."""

    status: int
    body: dict[str, Any]

    @property
    def call_id(self) -> str:
        """The call's id, whatever its outcome."""
        return str(self.body.get("call_id") or str(self.body.get("instance", "")).rpartition("/")[2])

    @property
    def needs_approval(self) -> bool:
        """Whether the call waits for approval."""
        return self.body.get("status") == "pending_approval"


class ApiKeyClient:
    """Makes calls as the API key's owner.

    Args:
        url: The host's base URL.
        key: The token.
    """

    def __init__(self, url: str, key: Secret) -> None:
        self._address = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {key.reveal()}", "Content-Type": "application/json"}

    def call(self, name: str, params: Mapping[str, Any]) -> DemoCallResponse:
        """Make a call and wait until it has ended, or waits for approval.

        Raises:
            OSError: the host is gone.
        """
        body = json.dumps({"name": name, "params": params})
        connection = http.client.HTTPConnection(self._address, timeout=_RESPONSE_TIMEOUT_S)
        try:
            connection.request("POST", f"{_API_PREFIX}/calls", body, self._headers)
            response = connection.getresponse()
            return DemoCallResponse(response.status, json.loads(response.read()))
        finally:
            connection.close()

    def wait_for_end(self, call_id: str, timeout_s: float) -> dict[str, Any] | None:
        """Wait for the end of a call and return it.

        None if the host goes away first, or sends nothing until the timeout.

        Raises:
            OSError: the host is gone already.
        """
        connection = http.client.HTTPConnection(self._address, timeout=timeout_s)
        try:
            connection.request(
                "GET", f"{_API_PREFIX}/calls/{call_id}/events", headers=self._headers | {"Accept": "text/event-stream"}
            )
            for kind, data in _parse_events(connection.getresponse()):
                if kind == "end":
                    return data
        except TimeoutError:
            pass
        finally:
            connection.close()
        return None


def _parse_events(response: http.client.HTTPResponse) -> Iterator[tuple[str, dict[str, Any]]]:
    kind = ""
    while line := response.readline().decode():
        name, _, value = line.rstrip("\n").partition(": ")
        if name == "event":
            kind = value
        elif name == "data":
            yield kind, json.loads(value)
