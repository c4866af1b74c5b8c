"""One thing that needs a person, its place in the list, and the cursor of a page. Pure."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import Invalid, Problem
from paddock.manifest.effects import Risk

_LAST: Final = "~"  # sorts after every time stamp: no deadline, or an unknown age
_MAX_CURSOR_CHARS: Final = 2_000


class InboxKind(StrEnum):
    """What is asked of a person."""

    APPROVAL = "approval"  # may this call be made?
    CONSENT = "consent"  # may this plugin use your data?
    UNKNOWN_OUTCOME = "unknown_outcome"  # did this call happen?
    DEFINITION = "definition"  # may this changed tool be used?
    REPAIR = "repair"  # something does not work until a person acts


class InboxPosition(NamedTuple):
    """Where an item stands: by risk, then by the nearest deadline, then by age."""

    rank: int
    expires_at: str
    created_at: str
    id: str

    @property
    def is_timeless(self) -> bool:
        """Whether the item there has no deadline."""
        return self.expires_at == _LAST

    def to_cursor(self) -> str:
        """Return the position as text for a URL."""
        return base64.urlsafe_b64encode(json.dumps(self).encode()).decode().rstrip("=")

    @classmethod
    def from_cursor(cls, cursor: str) -> InboxPosition:
        """Read a position that a client sends back.

        Raises:
            Invalid: it is none.
        """
        try:
            text = base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4))
            match json.loads(text) if len(cursor) <= _MAX_CURSOR_CHARS else None:
                case [int(rank), str(expires_at), str(created_at), str(id_)]:
                    if 0 <= rank < len(Risk) and "\0" not in f"{expires_at}{created_at}{id_}":
                        return cls(rank, expires_at, created_at, id_)
                case _:
                    pass
        except (ValueError, binascii.Error, RecursionError):
            pass
        problem = Problem("after", "is not the `next` of a page", "leave it out for the first page", "cursor")
        raise Invalid("the address is not valid", [problem], code="invalid_params")


class InboxChoice(NamedTuple):
    """An answer that is possible from the list.

    Attributes:
        answer: `approve`, `approve_once`, `deny`, or the action of a repair.
        label: The words of its button.
        confirm: The question before it is done; empty if none is needed.
        host_only: Whether only operators of the host may give it.
    """

    answer: str
    label: str
    confirm: str = ""
    host_only: bool = False


class InboxItem(Struct, frozen=True):
    """One thing that needs a person.

    Attributes:
        id: Identifies it in URLs: the id of the request or call, or a hash of what it is about.
        title: What it is about, without who asks.
        detail: Why it needs a person; may contain text of plugins.
        requester: The principal that asks; empty if it is the host.
        for_person: The person the call is for.
        effects: The declared effects of the call.
        answerable_by: Who may answer: people, roles and groups.
        needed: How many more answers it takes.
        choices: The answers that are possible from the list; empty: it is answered on its page.
        inputs: The exact inputs; None if there are none, or if they are too long for a list.
        rules: The rules that asked.
        binding: The hash of what exactly is answered; empty if nothing is bound.
        link: Its page in the console.
        action: What to do about it, which the command line shows as a command.
        reference: What its answer is about: the id of the call, the plugin or the repair.
    """

    id: str
    kind: InboxKind
    title: str
    detail: str
    risk: Risk
    link: str
    requester: str = ""
    for_person: str = ""
    plugin: str = ""
    callable: str = ""
    effects: tuple[str, ...] = ()
    answerable_by: tuple[str, ...] = ()
    needed: int = 1
    choices: tuple[InboxChoice, ...] = ()
    inputs: Mapping[str, Any] | None = None
    rules: tuple[str, ...] = ()
    binding: str = ""
    action: Action | None = None
    reference: str = ""
    created_at: str | None = None
    expires_at: str | None = None

    @property
    def position(self) -> InboxPosition:
        return InboxPosition(self.risk.rank, self.expires_at or _LAST, self.created_at or _LAST, self.id)


def hashed_item_id(prefix: str, *names: str) -> str:
    """Return an id that fits in a URL for what is identified by several names."""
    return f"{prefix}_{hashlib.sha256(json.dumps(names).encode()).hexdigest()[:20]}"
