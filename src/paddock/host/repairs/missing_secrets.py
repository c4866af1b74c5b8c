"""Which secrets of the whole tenant a plugin's operations cannot do without, and have not. Pure."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from paddock.host.repairs.facts import MissingSecret
from paddock.manifest.model import Manifest
from paddock.secrets.declared import Scope, needed


def missing_of_tenant(manifest: Manifest, have: AbstractSet[str]) -> tuple[MissingSecret, ...]:
    """By name. What each person has to bring for themselves is not among them: see `accounts`.

    Args:
        manifest: What the plugin declares.
        have: The names of the tenant's own secrets that are set.
    """
    wanted: dict[str, list[str]] = {}
    shared: set[str] = set()  # those that only the tenant can have
    for auth in manifest.operation_auth:
        for name, order in needed(manifest, auth.operation).items():
            if Scope.SYSTEM in order and name not in have:
                wanted.setdefault(name, []).append(auth.operation)
                if Scope.USER not in order:
                    shared.add(name)
    return tuple(MissingSecret(name, tuple(wanted[name]), name not in shared) for name in sorted(wanted))
