"""Whose something is that a client comes back for: a session, or a call that waits. Plain values."""

from __future__ import annotations

from typing import NamedTuple

from paddock.core.call import CallContext
from paddock.core.ids import OperatorId, PrincipalId, Tenant


class Owner(NamedTuple):
    """Whoever acts, and who acts in their name."""

    tenant: Tenant
    principal: PrincipalId
    operator: OperatorId | None


def owner_of(context: CallContext) -> Owner:
    """Whose whatever is that begins in this context."""
    return Owner(context.tenant, context.principal.id, context.operator)
