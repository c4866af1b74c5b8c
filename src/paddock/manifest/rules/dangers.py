"""Dangerous permissions: requested capabilities that a person accepts one by one, also at a first install. Pure.

`capability.is_dangerous` judges a capability by itself. Whether it is safe to agree to it with one question for the
whole plugin also depends on what it changes outside of the plugin's own folder, and on who signed the package.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypedDict

from msgspec import Struct

from paddock.manifest.capability import (
    Capability,
    Execute,
    FileAccess,
    NetworkAccess,
    describe_capability,
    is_dangerous,
)
from paddock.manifest.credential_paths import credentials_at, runs_outside
from paddock.manifest.model import Manifest, RemoteRuntime

_TEXT_SUFFIX = " (dangerous)"


class DangerJson(TypedDict):
    """A dangerous permission."""

    capability: str
    means: Annotated[str, "What it lets the plugin do, in plain words."]
    reason: Annotated[str, "Why it is dangerous."]


class Danger(Struct, frozen=True):
    """A dangerous permission, and why it is one."""

    capability: Capability
    reason: str

    @property
    def means(self) -> str:
        """What the capability lets the plugin do, in plain words."""
        return describe_capability(self.capability).removesuffix(_TEXT_SUFFIX).partition("; ")[0]

    def to_value(self) -> DangerJson:
        return {"capability": str(self.capability), "means": self.means, "reason": self.reason}


def find_dangers(manifest: Manifest, capabilities: Iterable[Capability], *, trusted: bool) -> tuple[Danger, ...]:
    """Return the dangerous ones of the capabilities, in their order.

    Args:
        manifest: The plugin's manifest.
        capabilities: What it requests, or the part of that to judge.
        trusted: Whether its package is signed with a key that is trusted here: anyone can make another.
    """
    # A server that runs elsewhere reads nothing of this machine, so that it has nothing to send.
    trusted_code = trusted or isinstance(manifest.runtime, RemoteRuntime)
    judged = ((capability, _danger_reason(capability, trusted=trusted_code)) for capability in capabilities)
    return tuple(Danger(capability, reason) for capability, reason in judged if reason)


def _danger_reason(capability: Capability, *, trusted: bool) -> str:
    """Return why a capability is dangerous; empty if it is not."""
    match capability:
        case NetworkAccess(host="*"):
            return "It can send what it reads to any host."
        case NetworkAccess() if not trusted:
            return "No key that you trust signed the package, and it can send what it reads there."
        case FileAccess(path=path, root="") if credentials := credentials_at(path):
            return f"It holds {credentials}."
        case FileAccess(mode="write", path=path, root="") if runs_outside(path):
            return "What it writes there runs outside of its cage."
        case FileAccess(mode="write", root="" | "project"):
            return "It changes files outside of its own folder."
        case Execute():
            return "It runs a program of this machine in its cage."
        case _:
            return "It reaches most of this machine." if is_dangerous(capability) else ""
