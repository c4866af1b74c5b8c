"""The revisions of MCP that we serve, and how they differ: the one table. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, cast


@dataclass(frozen=True, slots=True)
class ProtocolRevision:
    """What a client of one revision understands."""

    name: str
    stateless: bool = False  # every request says what it needs; there is no handshake and no session
    batches: bool = False  # several messages may come in one array
    audio: bool = False  # sounds among the content of results
    structured_content: bool = False  # output schemas, structured content, links to resources, titles
    elicitation: bool = False  # we may ask the person behind the client
    url_elicitation: bool = False  # we may send them to a page
    primed_streams: bool = False  # a stream may begin with an event that has nothing but its id
    non_object_output: bool = False  # structured content may be something else than an object
    not_found_code: int = -32002  # the number of the error for a document that there is not


_REVISIONS: Final = (
    ProtocolRevision("2024-11-05"),
    ProtocolRevision("2025-03-26", batches=True, audio=True),
    ProtocolRevision("2025-06-18", audio=True, structured_content=True, elicitation=True),
    ProtocolRevision(
        "2025-11-25", audio=True, structured_content=True, elicitation=True, url_elicitation=True, primed_streams=True
    ),
    ProtocolRevision(
        "2026-07-28",
        stateless=True,
        audio=True,
        structured_content=True,
        elicitation=True,
        url_elicitation=True,
        non_object_output=True,
        not_found_code=-32602,
    ),
)
HANDSHAKE_REVISIONS: Final[Mapping[str, ProtocolRevision]] = MappingProxyType(
    {one.name: one for one in _REVISIONS if not one.stateless}
)
STATELESS_REVISIONS: Final[Mapping[str, ProtocolRevision]] = MappingProxyType(
    {one.name: one for one in _REVISIONS if one.stateless}
)
OLDEST_REVISION: Final = _REVISIONS[0].name
NEWEST_HANDSHAKE_REVISION: Final = "2025-11-25"

_COMMON_METHODS: Final = frozenset(
    {
        "tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list",
        "prompts/get", "completion/complete",
    }
)  # fmt: skip
_SESSION_METHODS: Final = frozenset({"ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"})
_STATELESS_METHODS: Final = frozenset({"server/discover", "subscriptions/listen"})

LOG_LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of log messages, least important first."""


def has_method(revision: ProtocolRevision, method: str) -> bool:
    """Whether a request of this name exists in a revision, the handshake apart."""
    return method in _COMMON_METHODS or method in (_STATELESS_METHODS if revision.stateless else _SESSION_METHODS)


@dataclass(frozen=True, slots=True)
class ElicitationModes:
    """What a client can ask the person behind it."""

    form: bool = False
    url: bool = False


NO_ELICITATION: Final = ElicitationModes()


def parse_elicitation_modes(revision: ProtocolRevision, capabilities: Any) -> ElicitationModes:
    """What the capabilities of a client say of that. One that says nothing more than that it can ask means forms."""
    told: Any = cast("dict[str, Any]", capabilities).get("elicitation") if isinstance(capabilities, dict) else None
    if not isinstance(told, dict) or not revision.elicitation:
        return NO_ELICITATION
    modes = cast("dict[str, Any]", told)
    return ElicitationModes(form="form" in modes or "url" not in modes, url=revision.url_elicitation and "url" in modes)
