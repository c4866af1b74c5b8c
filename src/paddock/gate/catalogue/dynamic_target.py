"""Targets that a server describes itself: what it offers under a name is known once it runs, and may change."""

from __future__ import annotations

from paddock.core.errors import Conflict
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.catalogue.catalogues import Catalogues
from paddock.runtime.supervisor import Supervisor


async def refresh_target(target: CallTarget, supervisor: Supervisor, catalogues: Catalogues) -> CallTarget:
    """Start the server of a dynamic target, and return the target as the server describes it now.

    Raises:
        PaddockError: the target is withheld, is gone, or its server does not run.
    """
    while target.dynamic:
        if target.withheld is not None:
            raise target.withheld.unavailable_error(target.key.plugin, target.requested_name, target.key.tenant)
        await supervisor.ensure_running(target.key)
        current = catalogues.of(target.key.tenant).refresh(target)
        if current.key == target.key and current.withheld is None:
            return current
        target = current
    return target


async def require_unchanged(target: CallTarget, supervisor: Supervisor, catalogues: Catalogues) -> None:
    """Require that a server still offers what was decided about.

    From here to the call nothing may wait: the process that is called must be the one that was asked.

    Raises:
        Conflict: it offers something else under that name now.
    """
    current = await refresh_target(target, supervisor, catalogues)
    if current.definition_hash != target.definition_hash:
        raise Conflict(
            f"{target.title} has changed since the call was made",
            code="callable.changed",
            hint="repeat the call",
            details={"plugin": target.key.plugin},
        )
