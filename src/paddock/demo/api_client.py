"""A program with an API key, as the demo has one: it makes calls over HTTP and follows them to their end."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from paddock.core.secret import Secret

_API_PREFIX = "/api/v1"
_RESPONSE_TIMEOUT_S = 60.0  # seconds for an answer


@dataclass(frozen=True, slots=True)
class DemoCallResponse:
    """What a call came to: the call itself, or the problem that it was answered with."""

    status: int
    body: dict[str, Any]

    @property
    def call_id(self) -> str:
        """The call, whatever became of it."""
        return str(self.body.get("call_id") or str(self.body.get("instance", "")).rpartition("/")[2])

    @property
    def needs_approval(self) -> bool:
        """Whether a person is asked first."""
        return self.body.get("status") == "pending_approval"


class ApiKeyClient:
    """Calls in the name of whoever the key is of.

    Args:
        url: Where the host is.
        key: The token.
    """

    def __init__(self, url: str, key: Secret) -> None:
        self._where = urlsplit(url).netloc
        self._headers = {"Authorization": f"Bearer {key.reveal()}", "Content-Type": "application/json"}

    def call(self, name: str, params: Mapping[str, Any]) -> DemoCallResponse:
        """Make a call and wait until it is over, or waits for a person.

        Raises:
            OSError: the host is gone.
        """
        body = json.dumps({"name": name, "params": params})
        connection = http.client.HTTPConnection(self._where, timeout=_RESPONSE_TIMEOUT_S)
        try:
            connection.request("POST", f"{_API_PREFIX}/calls", body, self._headers)
            response = connection.getresponse()
            return DemoCallResponse(response.status, json.loads(response.read()))
        finally:
            connection.close()

    def wait_for_end(self, call_id: str, patience: float) -> dict[str, Any] | None:
        """The call once it is over; None where the host goes away first, or is silent for so many seconds.

        Raises:
            OSError: the host is gone already.
        """
        connection = http.client.HTTPConnection(self._where, timeout=patience)
        try:
            connection.request(
                "GET", f"{_API_PREFIX}/calls/{call_id}/events", headers=self._headers | {"Accept": "text/event-stream"}
            )
            for kind, told in _parse_events(connection.getresponse()):
                if kind == "end":
                    return told
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
