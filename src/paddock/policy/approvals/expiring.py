"""Requests end on time: each lies in the queue from when it is made until it is over."""

from __future__ import annotations

from datetime import datetime

from paddock.policy.approvals import rows
from paddock.policy.approvals.approval import OPEN, Approval, State
from paddock.policy.approvals.unit import Unit
from paddock.policy.approvals.using import end
from paddock.queue import queue

EXPIRE = rows.EXPIRE


def set_time(unit: Unit, approval: Approval) -> None:
    """Have a request ended when its time is over; in the unit of work in which it is made."""
    due = datetime.fromisoformat(approval.binding.expires_at)
    queue.put(unit.tx, unit.tenant, EXPIRE, approval.id, due=due, now=unit.clock.now())


def expire(unit: Unit, approval_id: str) -> Approval | None:
    """End a request whose time is over, and give it; None where it had ended, or its time is not over.

    Raises:
        NotFound: there is none.
    """
    approval = rows.find(unit.tx, unit.tenant, approval_id)
    if approval.state not in OPEN or approval.binding.expires_at > unit.now:
        return None
    end(unit, approval, State.EXPIRED, "nobody answered in time")
    return rows.find(unit.tx, unit.tenant, approval_id)
