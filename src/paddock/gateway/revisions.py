"""The revisions of MCP that we serve, and how they differ: the one table. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast


@dataclass(frozen=True, slots=True)
class Revision:
    """What a client of one revision understands."""

    name: str
    stateless: bool = False  # every request says what it needs; there is no handshake and no session
    batches: bool = False  # several messages may come in one array
    audio: bool = False  # sounds among the content of results
    structured: bool = False  # output schemas, structured content, links to resources, titles
    elicits: bool = False  # we may ask the person behind the client
    urls: bool = False  # we may send them to a page
    primed: bool = False  # a stream may begin with an event that has nothing but its id
    any_output: bool = False  # structured content may be something else than an object
    not_found: int = -32002  # the number of the error for a document that there is not


_TABLE: Final = (
    Revision("2024-11-05"),
    Revision("2025-03-26", batches=True, audio=True),
    Revision("2025-06-18", audio=True, structured=True, elicits=True),
    Revision("2025-11-25", audio=True, structured=True, elicits=True, urls=True, primed=True),
    Revision(
        "2026-07-28",
        stateless=True,
        audio=True,
        structured=True,
        elicits=True,
        urls=True,
        any_output=True,
        not_found=-32602,
    ),
)
HANDSHAKE: Final[Mapping[str, Revision]] = MappingProxyType({one.name: one for one in _TABLE if not one.stateless})
STATELESS: Final[Mapping[str, Revision]] = MappingProxyType({one.name: one for one in _TABLE if one.stateless})
OLDEST: Final = _TABLE[0].name
NEWEST_HANDSHAKE: Final = "2025-11-25"

_BOTH: Final = frozenset(
    {
        "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list",
        "prompts/get", "completion/complete",
    }
)  # fmt: skip
_OF_SESSIONS: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
_OF_STATELESS: Final = frozenset({"server/discover", "subscriptions/listen"})

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of log messages, least important first."""


def knows(revision: Revision, method: str) -> bool:
    """Whether a request of this name exists in a revision, the handshake apart."""
    return method in _BOTH or method in (_OF_STATELESS if revision.stateless else _OF_SESSIONS)


@dataclass(frozen=True, slots=True)
class Asks:
    """What a client can ask the person behind it."""

    form: bool = False
    url: bool = False


NOTHING: Final = Asks()


def asks_of(revision: Revision, capabilities: Any) -> Asks:
    """What the capabilities of a client say of that. One that says nothing more than that it can ask means forms."""
    told: Any = cast("dict[str, Any]", capabilities).get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(told, dict) or not revision.elicits:
        return NOTHING
    modes = cast("dict[str, Any]", told)
    return Asks(form="form" in modes or "url" not in modes, url=revision.urls and "url" in modes)
