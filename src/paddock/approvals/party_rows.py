"""The rows that say whom a request concerns, for lists: see `approval_parties.py`.

Those of `approval_parties` exist while a request is pending: who may answer it (approver), whose it is (owner), and
who may not answer because they asked for it (barred) or have answered (answered). Those of `approval_viewers` say who
may see it, and stay as long as the request.
"""

# ruff: noqa: S608 - only columns and placeholders of this module are put into SQL; every value is bound

from __future__ import annotations

from collections.abc import Collection, Sequence

from paddock.approvals.access import PERSONAL_KINDS
from paddock.approvals.model import Approval
from paddock.core.call import OPERATOR
from paddock.manifest.effects import risk_of_effects
from paddock.store.database import Transaction


def insert_parties(tx: Transaction, approval: Approval) -> None:
    """Record whom a new request concerns."""
    parties = {(who, "approver") for who in approval.answerable_by if who}
    parties |= {(who, "owner") for who in (approval.binding.requester, approval.for_person) if who}
    if approval.kind not in PERSONAL_KINDS:
        parties.add((f"role:{OPERATOR}", "approver"))
        if approval.binding.four_eyes:
            parties |= {(who, "barred") for who in approval.requesters if who}
    _insert(tx, approval, sorted(parties))
    viewers = [(approval.binding.subject.tenant, who, approval.created_at, approval.id) for who in _viewers(approval)]
    tx.execute(
        "INSERT INTO approval_viewers (tenant, who, ended, created_at, approval) VALUES"
        f" {', '.join(['(?, ?, 0, ?, ?)'] * len(viewers))}",
        [value for row in viewers for value in row],
    )


def insert_answered(tx: Transaction, approval: Approval, who: str) -> None:
    """Record that someone has answered a request, which may need more answers."""
    _insert(tx, approval, [(who, "answered")])


def _insert(tx: Transaction, approval: Approval, parties: Sequence[tuple[str, str]]) -> None:
    binding = approval.binding
    risk = risk_of_effects(binding.subject.effects).rank
    place = (binding.subject.tenant, approval.kind.value, risk, binding.expires_at, approval.created_at)
    tx.execute(
        "INSERT INTO approval_parties (approval, who, part, tenant, kind, risk, expires_at, created_at) VALUES"
        f" {', '.join(['(?, ?, ?, ?, ?, ?, ?, ?)'] * len(parties))}",
        [value for who, part in parties for value in (approval.id, who, part, *place)],
    )


def delete_parties(tx: Transaction, approval_ids: Sequence[str]) -> None:
    """Forget whom requests concern that are not pending any more."""
    if approval_ids:
        tx.execute(f"DELETE FROM approval_parties WHERE approval IN ({_marks(approval_ids)})", approval_ids)


def end_views(tx: Transaction, approvals: Sequence[Approval]) -> None:
    """Move requests to those that ended, for all who may see them."""
    for approval in approvals:
        viewers = _viewers(approval)
        tx.execute(
            f"UPDATE approval_viewers SET ended = 1 WHERE tenant = ? AND who IN ({_marks(viewers)})"
            " AND ended = 0 AND created_at = ? AND approval = ?",
            (approval.binding.subject.tenant, *viewers, approval.created_at, approval.id),
        )


def delete_views(tx: Transaction, tenant: str, names: Collection[str]) -> int:
    """Forget which ended requests some principals may see; they were erased.

    An open request still names them as approvers: what they may answer ends when they are removed, by these rows.
    """
    return tx.execute(
        f"DELETE FROM approval_viewers WHERE tenant = ? AND who IN ({_marks(names)}) AND ended = 1",
        (tenant, *sorted(names)),
    )


def _viewers(approval: Approval) -> list[str]:
    approvers = () if approval.kind in PERSONAL_KINDS else approval.binding.approvers
    return sorted({who for who in (approval.binding.requester, approval.for_person, *approvers) if who})


def _marks(values: Collection[object]) -> str:
    return ", ".join("?" * len(values))
