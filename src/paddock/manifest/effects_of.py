"""What a callable may do, decided once for every dialect."""

from __future__ import annotations

from paddock.manifest.capability import harmless
from paddock.manifest.effects import Effect
from paddock.manifest.model import CallableSpec, Manifest, RemoteRuntime


def effects_of(manifest: Manifest, spec: CallableSpec) -> tuple[Effect, ...]:
    """The declared effects; or read-only where the cage leaves nothing to change; or unknown.

    A server's own annotations are never asked: a hint may warn a person, it may not lower a guard.
    """
    if spec.effects is not None:
        return spec.effects or (Effect.READ_ONLY,)
    if not isinstance(manifest.runtime, RemoteRuntime) and harmless(manifest.capabilities):
        return (Effect.READ_ONLY,)
    return (Effect.UNKNOWN,)
