"""What a plugin of each kind may have at all, whatever it asks for and was granted. Pure.

Agents think, tools compute, adapters translate, operators act. The first three change nothing and remember nothing: no
network, no program, no place to write, and no service of the host that keeps something for them. What they need beyond
their input they ask the host for. A service that both reads and writes they may have for reading, such as the artifacts
that a call hands them; the door refuses them its writing methods (`capabilities/methods.py`).

That tools are good to cache is the host's to use: whoever keeps answers of its own answers by what came before.
"""

from __future__ import annotations

from collections.abc import Iterable

from paddock.manifest.capability import Capability, Execute, FileAccess, HostService, Network, Storage
from paddock.manifest.model import Kind, Manifest
from paddock.manifest.report import Report

PASSIVE = frozenset({Kind.AGENT, Kind.TOOL, Kind.ADAPTER})
# Services, and modes of services, whose very purpose is to keep or change something.
_KEEPING = frozenset({"cache", "cursor", "rate", "scheduler", "storage"})
_CHANGING = frozenset({("memory", "full"), ("vault", "write")})


def beyond_kind(kind: Kind, capability: Capability) -> bool:
    """Whether a plugin of this kind must not have it."""
    if kind not in PASSIVE:
        return False
    match capability:
        case Network() | Execute() | FileAccess(mode="write") | Storage(mode="write"):
            return True
        case HostService(family, mode):
            return family in _KEEPING or (family, mode) in _CHANGING
        case _:
            return False


def check_kind_boundary(report: Report, manifest: Manifest) -> None:
    """Report every capability that the manifest asks for and that its kind must not have."""
    for capability in manifest.capabilities:
        if beyond_kind(manifest.kind, capability):
            report.error(
                ("capabilities",),
                f"a plugin of kind {manifest.kind} may not have {capability}",
                "only operators act and keep anything: make it an operator, or take what it needs from its input",
                "kind_boundary",
            )


def within_kind(kind: Kind, capabilities: Iterable[Capability]) -> tuple[Capability, ...]:
    """What of these a plugin of this kind may have."""
    return tuple(capability for capability in capabilities if not beyond_kind(kind, capability))
