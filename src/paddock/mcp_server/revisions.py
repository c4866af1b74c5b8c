"""The MCP protocol revisions that we serve, and their differences, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, cast

from msgspec import Struct


class ProtocolRevision(Struct, frozen=True):
    """The features of one protocol revision."""

    name: str
    stateless: bool = False  # self-contained requests, no handshake or session
    batches: bool = False  # JSON-RPC batches
    audio: bool = False  # audio content, and tool annotations
    structured_content: bool = False  # output schemas, resource links, titles
    elicitation: bool = False  # the server may ask the person behind the client
    url_elicitation: bool = False  # the server may send them to a URL
    primed_streams: bool = False  # streams may start with an event that has only an id
    non_object_output: bool = False  # structured content need not be an object
    not_found_code: int = -32002  # error code for unknown resources


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
"""Log levels, least important first."""


def has_method(revision: ProtocolRevision, method: str) -> bool:
    """Return whether a revision has a method, the handshake aside."""
    return method in _COMMON_METHODS or method in (_STATELESS_METHODS if revision.stateless else _SESSION_METHODS)


class ElicitationModes(Struct, frozen=True):
    """The elicitation modes that a client supports."""

    form: bool = False
    url: bool = False


NO_ELICITATION: Final = ElicitationModes()


def parse_elicitation_modes(revision: ProtocolRevision, capabilities: Any) -> ElicitationModes:
    """Parse a client's elicitation capability; without further detail it means forms."""
    capability: Any = (
        cast("dict[str, Any]", capabilities).get("elicitation") if isinstance(capabilities, dict) else None
    )
    if not isinstance(capability, dict) or not revision.elicitation:
        return NO_ELICITATION
    modes = cast("dict[str, Any]", capability)
    return ElicitationModes(form="form" in modes or "url" not in modes, url=revision.url_elicitation and "url" in modes)
