"""Robin, a simulated user: requests calls that need the visitor's approval.

Robin requests one call at a time, leaves a thank-you note, and requests the next a while later. A request that expires
is made once more; if that expires too, or all requests are made, Robin stops.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from http.client import HTTPException
from typing import Any, Final

from msgspec import Struct

from paddock.demo.api_client import ApiKeyClient

SIMULATED_USER_NAME: Final = "robin"
REQUEST_PAUSE_S: Final = 20.0  # from an answer to the next request
APPROVAL_TIMEOUT_S: Final = 1_800.0  # how long Robin waits for an answer


class DemoRequest(Struct, frozen=True):
    """One of Robin's requests: a label, and the call."""

    label: str
    name: str
    params: Mapping[str, Any]


DEMO_REQUESTS: Final = (
    DemoRequest(
        "the letter about the oats",
        "outbox.send",
        {
            "to": "Ann, Hill Farm",
            "subject": "Oats for Friday",
            "text": "Dear Ann,\n\nplease bring forty kilos of oats on Friday, before noon.\n\nRobin",
        },
    ),
    DemoRequest("the note about the vet", "shu_notes.add_note", {"text": "The vet comes on Monday at nine."}),
    DemoRequest(
        "the letter to the vet",
        "outbox.send",
        {
            "to": "Dr. Okafor",
            "subject": "Monday at nine",
            "text": "Dear Dr. Okafor,\n\nthe gate on the south side will be open.\n\nRobin",
        },
    ),
)


def reaction_text(request: DemoRequest, call: Mapping[str, Any]) -> str:
    """Return Robin's note about the outcome of a request. Pure."""
    if call["status"] == "succeeded":
        return f"Thank you! {request.label[0].upper()}{request.label[1:]} is done. Robin"
    if call["status"] == "in_doubt":
        return f"It is unknown whether {request.label} was done. I will ask around. Robin"
    return f"Understood, {request.label} stays undone. Robin"


def has_expired(call: Mapping[str, Any]) -> bool:
    """Whether a call ended because its approval request expired. Pure."""
    return bool(call.get("error", {}).get("code") == "approval.expired")


class SimulatedUser:
    """One run of the simulated user.

    Args:
        client: Makes calls with Robin's API key.
        report: Receives a sentence about each of Robin's actions.
        pause_s: Seconds from an answer to the next request.
    """

    def __init__(self, client: ApiKeyClient, report: Callable[[str], None], pause_s: float = REQUEST_PAUSE_S) -> None:
        self._client = client
        self._report = report
        self._pause_s = pause_s
        self._stopped = threading.Event()

    def make_first_request(self) -> str | None:
        """Make the first request, so that it waits when the visitor arrives; return the waiting call, if any."""
        return self._make_request(DEMO_REQUESTS[0])

    @contextmanager
    def run_beside(self, first_call: str | None) -> Generator[None, None, None]:
        """Run Robin in a thread while the block runs."""
        thread = threading.Thread(target=self._run, args=(first_call,), name="robin", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stopped.set()

    def _run(self, call_id: str | None) -> None:
        with suppress(OSError, ValueError, HTTPException):  # the host went away, possibly in the middle of a response
            for request in DEMO_REQUESTS:
                answered = self._follow_request(request, call_id or self._make_request(request))
                if not (
                    answered or self._follow_request(request, self._make_request(request))
                ):  # nobody answers, not even the second time
                    return
                if self._stopped.wait(self._pause_s):
                    return
                call_id = None

    def _make_request(self, request: DemoRequest) -> str | None:
        response = self._client.call(request.name, request.params)
        if not response.needs_approval:
            return None
        self._report(f"Robin asks for {request.label}, and waits for your answer")
        return response.call_id

    def _follow_request(self, request: DemoRequest, call_id: str | None) -> bool:
        """Wait for an answer and leave a note about it; return whether there was one."""
        call = None if call_id is None else self._client.wait_for_end(call_id, APPROVAL_TIMEOUT_S)
        if call is None or has_expired(call):
            return False
        text = reaction_text(request, call)
        self._client.call("native-notes.add_note", {"text": text, "tags": ["robin"]})
        self._report(f"Robin leaves a note: “{text}”")
        return True
