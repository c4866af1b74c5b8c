"""The revisions of the Model Context Protocol that we speak, and what was agreed with one server. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from paddock import __version__

HANDSHAKE_REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Begin with `initialize`; both sides remember what they agreed on. Oldest first."""

STATELESS_REVISIONS: Final = ("2026-07-28",)
"""Every request says what it needs; nothing is agreed on and nothing remembered. Oldest first."""

UNSUPPORTED_REVISION_CODE: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "paddock", "version": __version__}
# Neither sampling nor roots: a server gets no model of ours and sees no folder but those its cage shows.
CLIENT_CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
_LOG_LEVEL: Final = "info"


@dataclass(frozen=True, slots=True)
class NegotiatedServer:
    """What a server said when it was met."""

    revision: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None

    @property
    def stateless(self) -> bool:
        return self.revision in STATELESS_REVISIONS

    def announces_changes(self, kind: str) -> bool:
        """Whether the server tells when its tools, prompts or resources change."""
        about = self.capabilities.get(kind)
        return isinstance(about, dict) and cast("dict[str, Any]", about).get("listChanged") is True


def initialize_params() -> dict[str, Any]:
    """What a handshake begins with: the newest revision that has one."""
    return {
        "protocolVersion": HANDSHAKE_REVISIONS[-1],
        "capabilities": dict(CLIENT_CAPABILITIES),
        "clientInfo": dict(CLIENT_INFO),
    }


def with_protocol_meta(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a stateless request: they carry what a handshake would have settled."""
    meta = {
        VERSION_KEY: STATELESS_REVISIONS[-1],
        CLIENT_KEY: CLIENT_INFO,
        CAPABILITIES_KEY: CLIENT_CAPABILITIES,
        LOG_LEVEL_KEY: _LOG_LEVEL,
    }
    return {**params, "_meta": {**cast("Mapping[str, Any]", params.get("_meta") or {}), **meta}}


def parse_initialize_result(answer: Any) -> NegotiatedServer | None:
    """What the answer to `initialize` says; None where it says nothing that we understand."""
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    revision = told.get("protocolVersion")
    return _negotiated(revision, told) if isinstance(revision, str) and revision in HANDSHAKE_REVISIONS else None


def parse_discover_result(answer: Any) -> NegotiatedServer | None:
    """What the answer to `server/discover` says; None where the server speaks none of the stateless revisions."""
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    versions = told.get("supportedVersions")
    spoken = (
        [one for one in STATELESS_REVISIONS if one in cast("list[Any]", versions)] if isinstance(versions, list) else []
    )
    return _negotiated(spoken[-1], told) if spoken else None


def revisions_offered(data: Any) -> tuple[str, ...]:
    """The revisions that a server names when it refuses ours."""
    named = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    return tuple(one for one in cast("list[Any]", named) if isinstance(one, str)) if isinstance(named, list) else ()


def _negotiated(revision: str, told: Mapping[str, Any]) -> NegotiatedServer:
    capabilities, instructions = told.get("capabilities"), told.get("instructions")
    return NegotiatedServer(
        revision,
        cast("dict[str, Any]", capabilities) if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else None,
    )
