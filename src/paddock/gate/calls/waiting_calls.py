"""Calls that wait for a person. Each is a row, its approval request, with everything that is needed to make it later.

In memory there is a call only while somebody follows it: its handle is made of the row, and dropped with the last
reference. So any number of calls wait at no cost but their rows, and a host that starts reads none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from msgspec.structs import replace

from paddock.approvals.model import OPEN_STATES, Approval, ApprovalState
from paddock.approvals.service import Approvals
from paddock.core.call import CallContext, Principal
from paddock.core.clock import Clock
from paddock.core.errors import Conflict, Denied, PaddockError, StoreUnavailable
from paddock.core.ids import CallId, Tenant
from paddock.gate.calls.handle import CallHandle, CallStatus
from paddock.gate.calls.registry import CallRegistry
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.approval_preview import approval_required_error
from paddock.gate.effects.stored_context import load_context, load_presented
from paddock.gate.gate import Gate
from paddock.gate.invocation import CallCancelled
from paddock.principals.principal_name import resolve_principal
from paddock.store.database import Database


class WaitingCalls:
    """Finds calls, those included that wait for a person and that nobody follows.

    Args:
        gate: Knows the targets.
        calls: The registry of calls that run, have ended, or are followed while they wait.
        approvals: The approval requests.
        database: Holds the principals.
        clock: The time.
    """

    def __init__(self, gate: Gate, calls: CallRegistry, approvals: Approvals, database: Database, clock: Clock) -> None:
        self._gate = gate
        self._calls = calls
        self._approvals = approvals
        self._database = database
        self._clock = clock

    async def find(
        self, call_id: str, tenant: Tenant, is_visible: Callable[[CallHandle], bool] | None = None
    ) -> CallHandle:
        """Find a tenant's call by its id, as `CallRegistry.find` does; also one that waits, or whose request ended.

        Raises:
            NotFound: there is none that is visible, or it was evicted.
            StoreUnavailable: it is not known whether there is one.
        """
        handle = await self.get(call_id, tenant)
        if handle is None or not (is_visible is None or is_visible(handle)):
            return self._calls.find(call_id, tenant, lambda _: False)
        return handle

    async def get(self, call_id: str, tenant: Tenant, *, ended: bool = True) -> CallHandle | None:
        """Return a tenant's call; None if there is none. Without `ended`, not one whose request ended unused.

        Raises:
            StoreUnavailable: it is not known whether there is one.
        """
        handle = self._calls.get(call_id)
        if handle is not None:
            return handle if handle.context.tenant == tenant else None
        latest, count = await self._approvals.requests_of_call(tenant, call_id)
        if latest is None or latest.state is ApprovalState.CONSUMED or not (ended or latest.state in OPEN_STATES):
            return None
        if not latest.context:
            return None  # who made it was erased
        try:
            return await self._restore(latest, count)
        except StoreUnavailable:
            raise  # that is not known now
        except PaddockError:
            return None  # who made it is gone

    async def _restore(self, approval: Approval, count: int) -> CallHandle:
        context = await self.load_context(approval)
        try:
            target = self.find_target(approval)
        except PaddockError:
            target = None  # its plugin is not enabled: it waits for that too
        handle = self.restore_held(approval, target, context, edits=count - 1)
        if approval.state not in OPEN_STATES and handle.approval_required is not None:
            error, status = unapproved_outcome(approval)
            ended_at = self._clock.now() if approval.ended_at is None else datetime.fromisoformat(approval.ended_at)
            handle.end(status, ended_at, error=error)
        return handle

    def restore_held(
        self, approval: Approval, target: CallTarget | None, context: CallContext, *, edits: int = 0
    ) -> CallHandle:
        """Return the handle of a call that waits; it is held as long as the caller of this refers to it."""
        return self._calls.restore_held(
            CallId(approval.call),
            target or approval.binding.subject,
            context,
            approval_required_error(approval, target),
            params=approval.payload,
            started_at=approval.created_at,
            edits=edits,
        )

    def find_target(self, approval: Approval) -> CallTarget:
        """Return what a request is about.

        Raises:
            PaddockError: it is not enabled.
        """
        subject = approval.binding.subject
        catalogue = self._gate.catalogue(Tenant(subject.tenant))
        return catalogue.find_recorded(subject.plugin, subject.callable, approval.payload)

    async def load_context(self, approval: Approval) -> CallContext:
        """The context of a call that waits. Who made it is looked up again: rights may have been taken away since.

        Raises:
            PaddockError: they may not act any more.
        """
        live = self._calls.get(approval.call)
        if live is not None:
            return await self.with_current_rights(live.context)
        stored = approval.context
        rights: Mapping[str, Any] = stored.get("rights", {})
        name = _current_name(str(stored["principal"]), rights.get("owner"))
        current = await self._resolve(name, approval.binding.subject.tenant)
        return load_context(stored, load_presented(stored, current))

    async def with_current_rights(self, context: CallContext) -> CallContext:
        """The context without the rights that its principal has lost since the call was made."""
        caller = context.principal
        current = await self._resolve(_current_name(caller.id, caller.owner), context.tenant)
        return replace(context, principal=caller.restricted_to(current))

    async def _resolve(self, name: str, tenant: str) -> Principal:
        now = self._clock.now()
        return await self._database.read(lambda tx: resolve_principal(tx, name, tenant, now))


def _current_name(caller: str, owner: str | None) -> str:
    # The name of a token does not tell which roles it stands for; its owner has all that it can stand for.
    return owner if owner is not None and caller.startswith("token:") else caller


def unapproved_outcome(approval: Approval) -> tuple[PaddockError, CallStatus]:
    """Return how a call ends whose request ended without it."""
    if approval.state is ApprovalState.WITHDRAWN:
        return CallCancelled("the call was cancelled"), "cancelled"
    return ended_approval_error(approval), "failed"


def ended_approval_error(approval: Approval) -> PaddockError:
    """The error for the caller of a request that ended without its call."""
    who = ", ".join(answer.by for answer in approval.answers if not answer.approved)
    why = f": {approval.ended_why}" if approval.ended_why else ""
    details = {"approval": approval.id, "call_id": approval.call, "plugin": approval.binding.subject.plugin}
    match approval.state:
        case ApprovalState.DENIED:
            return Denied(f"{who or 'a person'} denied it{why}", code="approval.denied", details=details)
        case ApprovalState.EXPIRED:
            hint = "repeat the call to request approval again"
            return Conflict("the approval request expired", code="approval.expired", hint=hint, details=details)
        case _:
            return Conflict(f"the request is {approval.state}{why}", code=f"approval.{approval.state}", details=details)
