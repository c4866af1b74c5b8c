"""The MCP revisions that we support, and what was negotiated with one server. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import Struct, field

from paddock import __version__

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Begin with `initialize`; both sides remember the negotiated capabilities. Oldest first."""

STATELESS_REVISIONS: Final = ("2026-07-28",)
"""Every request carries what it needs; nothing is negotiated and nothing remembered. Oldest first."""

UNSUPPORTED_REVISION_CODE: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "paddock", "version": __version__}
# Neither sampling nor roots: a server gets no model of ours and sees no directory but those its cage shows.
CLIENT_CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
_LOG_LEVEL: Final = "info"


class NegotiatedServer(Struct, frozen=True):
    """What a server said in the handshake or in discovery."""

    revision: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None

    @property
    def stateless(self) -> bool:
        return self.revision in STATELESS_REVISIONS

    def announces_changes(self, kind: str) -> bool:
        """Whether the server notifies us when its tools, prompts or resources change."""
        capability = self.capabilities.get(kind)
        return isinstance(capability, dict) and cast("dict[str, Any]", capability).get("listChanged") is True


def initialize_params() -> dict[str, Any]:
    """The parameters of `initialize`: the newest revision that has a handshake."""
    return {
        "protocolVersion": HANDSHAKE_REVISIONS[-1],
        "capabilities": dict(CLIENT_CAPABILITIES),
        "clientInfo": dict(CLIENT_INFO),
    }


def with_protocol_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a stateless request: they carry what a handshake would have negotiated."""
    meta = {
        VERSION_KEY: STATELESS_REVISIONS[-1],
        CLIENT_KEY: CLIENT_INFO,
        CAPABILITIES_KEY: CLIENT_CAPABILITIES,
        LOG_LEVEL_KEY: _LOG_LEVEL,
    }
    return {**params, "_meta": {**cast("Mapping[str, Any]", params.get("_meta") or {}), **meta}}


def parse_initialize_result(result: Any) -> NegotiatedServer | None:
    """Parse the result of `initialize`; None where we do not understand it."""
    fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    revision = fields.get("protocolVersion")
    return _negotiated(revision, fields) if isinstance(revision, str) and revision in HANDSHAKE_REVISIONS else None


def parse_discover_result(result: Any) -> NegotiatedServer | None:
    """Parse the result of `server/discover`; None where the server supports none of our stateless revisions."""
    fields = cast("dict[str, Any]", result) if isinstance(result, dict) else {}
    versions = fields.get("supportedVersions")
    common = (
        [one for one in STATELESS_REVISIONS if one in cast("list[Any]", versions)] if isinstance(versions, list) else []
    )
    return _negotiated(common[-1], fields) if common else None


def revisions_offered(data: Any) -> tuple[str, ...]:
    """The revisions that a server names when it refuses ours."""
    supported = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    return (
        tuple(one for one in cast("list[Any]", supported) if isinstance(one, str))
        if isinstance(supported, list)
        else ()
    )


def _negotiated(revision: str, fields: Mapping[str, Any]) -> NegotiatedServer:
    capabilities, instructions = fields.get("capabilities"), fields.get("instructions")
    return NegotiatedServer(
        revision,
        cast("dict[str, Any]", capabilities) if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else None,
    )
