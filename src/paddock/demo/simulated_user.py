"""Robin, a second person: a program with a key of Robin's asks for things that need the visitor's yes.

Robin asks for one thing at a time, says thanks in a note, and asks for the next a while later. What nobody answers
until it expires is asked once more; then, or when all is asked, Robin goes home.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any, Final

from paddock.demo.api_client import ApiKeyClient

SIMULATED_USER_NAME: Final = "robin"
REQUEST_PAUSE_S: Final = 20.0  # seconds from an answer to the next request
APPROVAL_TIMEOUT_S: Final = 1_800.0  # seconds for which Robin waits for an answer


@dataclass(frozen=True, slots=True)
class DemoRequest:
    """Something that Robin wants done, in a word, and as the call that does it."""

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


def reaction_text(wish: DemoRequest, ended: Mapping[str, Any]) -> str:
    """What Robin says to what became of a wish. Pure."""
    if ended["status"] == "succeeded":
        return f"Thank you! {wish.label[0].upper()}{wish.label[1:]} is done. Robin"
    if ended["status"] == "in_doubt":
        return f"Nobody knows whether {wish.label} was done. I will ask around. Robin"
    return f"Understood, {wish.label} stays undone. Robin"


def has_expired(ended: Mapping[str, Any]) -> bool:
    """Whether a call is over because its request expired. Pure."""
    return bool(ended.get("error", {}).get("code") == "approval.expired")


class SimulatedUser:
    """One visit of Robin's.

    Args:
        client: Calls with Robin's key.
        tell: Hears in a sentence what Robin does.
        pause: Seconds from an answer to the next request.
    """

    def __init__(self, client: ApiKeyClient, tell: Callable[[str], None], pause: float = REQUEST_PAUSE_S) -> None:
        self._client = client
        self._tell = tell
        self._pause = pause
        self._over = threading.Event()

    def make_first_request(self) -> str | None:
        """Ask for the first thing, so that it waits when the visitor comes; the call that waits, if one does."""
        return self._make_request(DEMO_REQUESTS[0])

    @contextmanager
    def run_beside(self, first: str | None) -> Generator[None, None, None]:
        """Robin waits for answers beside this block, and leaves with it."""
        staying = threading.Thread(target=self._run, args=(first,), name="robin", daemon=True)
        staying.start()
        try:
            yield
        finally:
            self._over.set()

    def _run(self, asked: str | None) -> None:
        with suppress(OSError, ValueError, HTTPException):  # the host went away, in the middle of a word
            for wish in DEMO_REQUESTS:
                answered = self._follow_request(wish, asked or self._make_request(wish))
                if not (
                    answered or self._follow_request(wish, self._make_request(wish))
                ):  # nobody is there, not even later
                    return
                if self._over.wait(self._pause):
                    return
                asked = None

    def _make_request(self, wish: DemoRequest) -> str | None:
        made = self._client.call(wish.name, wish.params)
        if not made.needs_approval:
            return None
        self._tell(f"Robin asks for {wish.label}, and waits for your answer")
        return made.call_id

    def _follow_request(self, wish: DemoRequest, call_id: str | None) -> bool:
        """Wait for an answer and say something to it; whether there was one."""
        ended = None if call_id is None else self._client.wait_for_end(call_id, APPROVAL_TIMEOUT_S)
        if ended is None or has_expired(ended):
            return False
        words = reaction_text(wish, ended)
        self._client.call("native-notes.add_note", {"text": words, "tags": ["robin"]})
        self._tell(f"Robin leaves a note: “{words}”")
        return True
