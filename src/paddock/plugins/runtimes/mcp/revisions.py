"""The revisions of the Model Context Protocol that we speak, and what was agreed with one server. Plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, cast

from paddock import __version__

HANDSHAKE: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Begin with `initialize`; both sides remember what they agreed on. Oldest first."""

STATELESS: Final = ("2026-07-28",)
"""Every request says what it needs; nothing is agreed on and nothing remembered. Oldest first."""

UNSUPPORTED_REVISION: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
LOG_LEVEL_KEY: Final = "io.modelcontextprotocol/logLevel"

CLIENT: Final[Mapping[str, Any]] = {"name": "paddock", "version": __version__}
# Neither sampling nor roots: a server gets no model of ours and sees no folder but those its cage shows.
CAPABILITIES: Final[Mapping[str, Any]] = {"elicitation": {"form": {}, "url": {}}}
_LOG_LEVEL: Final = "info"


@dataclass(frozen=True, slots=True)
class Agreed:
    """What a server said when it was met."""

    revision: str
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str | None = None

    @property
    def stateless(self) -> bool:
        return self.revision in STATELESS

    def says_when(self, kind: str) -> bool:
        """Whether the server tells when its tools, prompts or resources change."""
        about = self.capabilities.get(kind)
        return isinstance(about, dict) and cast("dict[str, Any]", about).get("listChanged") is True


def initialize_params() -> dict[str, Any]:
    """What a handshake begins with: the newest revision that has one."""
    return {"protocolVersion": HANDSHAKE[-1], "capabilities": dict(CAPABILITIES), "clientInfo": dict(CLIENT)}


def stamped(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a stateless request: they carry what a handshake would have settled."""
    meta = {
        VERSION_KEY: STATELESS[-1],
        CLIENT_KEY: CLIENT,
        CAPABILITIES_KEY: CAPABILITIES,
        LOG_LEVEL_KEY: _LOG_LEVEL,
    }
    return {**params, "_meta": {**cast("Mapping[str, Any]", params.get("_meta") or {}), **meta}}


def agreed_by_handshake(answer: Any) -> Agreed | None:
    """What the answer to `initialize` says; None where it says nothing that we understand."""
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    revision = told.get("protocolVersion")
    return _agreed(revision, told) if isinstance(revision, str) and revision in HANDSHAKE else None


def agreed_by_discovery(answer: Any) -> Agreed | None:
    """What the answer to `server/discover` says; None where the server speaks none of the stateless revisions."""
    told = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    versions = told.get("supportedVersions")
    spoken = [one for one in STATELESS if one in cast("list[Any]", versions)] if isinstance(versions, list) else []
    return _agreed(spoken[-1], told) if spoken else None


def named_revisions(data: Any) -> tuple[str, ...]:
    """The revisions that a server names when it refuses ours."""
    named = cast("dict[str, Any]", data).get("supported") if isinstance(data, dict) else None
    return tuple(one for one in cast("list[Any]", named) if isinstance(one, str)) if isinstance(named, list) else ()


def _agreed(revision: str, told: Mapping[str, Any]) -> Agreed:
    capabilities, instructions = told.get("capabilities"), told.get("instructions")
    return Agreed(
        revision,
        cast("dict[str, Any]", capabilities) if isinstance(capabilities, dict) else {},
        instructions if isinstance(instructions, str) else None,
    )
