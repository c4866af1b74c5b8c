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

from paddock.cli.demo_client import KeyClient

NAME: Final = "robin"
PAUSE: Final = 20.0  # seconds from an answer to the next request
PATIENCE: Final = 1_800.0  # seconds for which Robin waits for an answer


@dataclass(frozen=True, slots=True)
class Wish:
    """Something that Robin wants done, in a word, and as the call that does it."""

    what: str
    name: str
    params: Mapping[str, Any]


WISHES: Final = (
    Wish(
        "the letter about the oats",
        "outbox.send",
        {
            "to": "Ann, Hill Farm",
            "subject": "Oats for Friday",
            "text": "Dear Ann,\n\nplease bring forty kilos of oats on Friday, before noon.\n\nRobin",
        },
    ),
    Wish("the note about the vet", "shu_notes.add_note", {"text": "The vet comes on Monday at nine."}),
    Wish(
        "the letter to the vet",
        "outbox.send",
        {
            "to": "Dr. Okafor",
            "subject": "Monday at nine",
            "text": "Dear Dr. Okafor,\n\nthe gate on the south side will be open.\n\nRobin",
        },
    ),
)


def reaction(wish: Wish, ended: Mapping[str, Any]) -> str:
    """What Robin says to what became of a wish. Pure."""
    if ended["status"] == "succeeded":
        return f"Thank you! {wish.what[0].upper()}{wish.what[1:]} is done. Robin"
    if ended["status"] == "in_doubt":
        return f"Nobody knows whether {wish.what} was done. I will ask around. Robin"
    return f"Understood, {wish.what} stays undone. Robin"


def unanswered(ended: Mapping[str, Any]) -> bool:
    """Whether a call is over because its request expired. Pure."""
    return bool(ended.get("error", {}).get("code") == "approval.expired")


class Robin:
    """One visit of Robin's.

    Args:
        client: Calls with Robin's key.
        tell: Hears in a sentence what Robin does.
        pause: Seconds from an answer to the next request.
    """

    def __init__(self, client: KeyClient, tell: Callable[[str], None], pause: float = PAUSE) -> None:
        self._client = client
        self._tell = tell
        self._pause = pause
        self._over = threading.Event()

    def ask_first(self) -> str | None:
        """Ask for the first thing, so that it waits when the visitor comes; the call that waits, if one does."""
        return self._ask(WISHES[0])

    @contextmanager
    def around(self, first: str | None) -> Generator[None, None, None]:
        """Robin waits for answers beside this block, and leaves with it."""
        staying = threading.Thread(target=self._stay, args=(first,), name="robin", daemon=True)
        staying.start()
        try:
            yield
        finally:
            self._over.set()

    def _stay(self, asked: str | None) -> None:
        with suppress(OSError, ValueError, HTTPException):  # the host went away, in the middle of a word
            for wish in WISHES:
                answered = self._sees_through(wish, asked or self._ask(wish))
                if not (answered or self._sees_through(wish, self._ask(wish))):  # nobody is there, not even later
                    return
                if self._over.wait(self._pause):
                    return
                asked = None

    def _ask(self, wish: Wish) -> str | None:
        made = self._client.call(wish.name, wish.params)
        if not made.waits:
            return None
        self._tell(f"Robin asks for {wish.what}, and waits for your answer")
        return made.call_id

    def _sees_through(self, wish: Wish, call_id: str | None) -> bool:
        """Wait for an answer and say something to it; whether there was one."""
        ended = None if call_id is None else self._client.end_of(call_id, PATIENCE)
        if ended is None or unanswered(ended):
            return False
        words = reaction(wish, ended)
        self._client.call("native-notes.add_note", {"text": words, "tags": ["robin"]})
        self._tell(f"Robin leaves a note: “{words}”")
        return True
