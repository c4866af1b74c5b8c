"""Who asked goes, or who was asked: what is open ends, and what was said to them for longer is taken back.

A request and a yes that lasts name people by their names. Without this, whoever gets such a name later would have them.
"""

from __future__ import annotations

from collections.abc import Collection

from paddock.core.events_approvals import StandingApprovalRevoked
from paddock.core.ids import PrincipalId
from paddock.policy.approvals import rows, standing
from paddock.policy.approvals.approval import Approval, State
from paddock.policy.approvals.unit import Unit
from paddock.policy.approvals.using import end

_WHY = "who asked for it, or was to answer it, is gone"


def let_go(unit: Unit, gone: Collection[str], by: PrincipalId) -> list[Approval]:
    """Take back every yes that lasts for one of these, and void what is open of them or asks one of them.

    Args:
        unit: The unit of work in which they go.
        gone: Names as in `user:ann`, `key:…` or `group:night-shift`.
        by: Who removes them.

    Returns:
        The requests that were open.
    """
    for one in standing.held_by(unit.tx, unit.tenant, gone):
        standing.revoke(unit.tx, unit.tenant, one.id, by=by, at=unit.now)
        unit.publish().publish(
            StandingApprovalRevoked(standing=one.id, name=one.plugin, method=one.callable, revoked_by=by)
        )
    concerned = [approval for approval in rows.all_open(unit.tx, unit.tenant) if _concerns(approval, gone)]
    for approval in concerned:
        end(unit, approval, State.VOIDED, _WHY)
    return concerned


def _concerns(approval: Approval, gone: Collection[str]) -> bool:
    return not {approval.binding.requester, approval.for_person, *approval.binding.approvers}.isdisjoint(gone)
