"""What a plugin of each kind may have at all, whatever it asks for and was granted. Pure.

Agents think, tools compute, adapters translate, operators act. The first three change nothing: no network, no program
and no place to write. What they need beyond their input they ask the host for.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.manifest.capability import Capability, Execute, FileAccess, Network, Storage
from paddock.manifest.model import Kind, Manifest
from paddock.manifest.report import Report

PASSIVE = frozenset({Kind.AGENT, Kind.TOOL, Kind.ADAPTER})


def beyond_kind(kind: Kind, capability: Capability) -> bool:
    """Whether a plugin of this kind must not have it."""
    if kind not in PASSIVE:
        return False
    match capability:
        case Network() | Execute() | FileAccess(mode="write") | Storage(mode="write"):
            return True
        case _:
            return False


def check_kind_boundary(report: Report, manifest: Manifest) -> None:
    """Report every capability that the manifest asks for and that its kind must not have."""
    for capability in manifest.capabilities:
        if beyond_kind(manifest.kind, capability):
            report.error(
                ("capabilities",),
                f"a plugin of kind {manifest.kind} may not have {capability}",
                "only operators act: make it an operator, or ask the host for what it needs",
                "kind_boundary",
            )


def within_kind(kind: Kind, capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """What of these a plugin of this kind may have."""
    return tuple(capability for capability in capabilities if not beyond_kind(kind, capability))
