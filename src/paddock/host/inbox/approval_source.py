"""Approval requests and consents in the inbox."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from paddock.approvals import approval_parties
from paddock.approvals.approval_parties import Urgency, WaitingApproval
from paddock.approvals.model import ApprovalRequestKind
from paddock.core.action import Action
from paddock.core.call import OPERATOR, Principal
from paddock.core.clock import Clock
from paddock.host.inbox.item import InboxChoice, InboxItem, InboxKind
from paddock.host.inbox.source import InboxQuery
from paddock.store.database import Database, Transaction

_KINDS: Final[Mapping[InboxKind, tuple[str, ...]]] = {
    InboxKind.APPROVAL: tuple(kind.value for kind in ApprovalRequestKind if kind is not ApprovalRequestKind.CONSENT),
    InboxKind.CONSENT: (ApprovalRequestKind.CONSENT.value,),
}
_CHOICES: Final = (InboxChoice("approve", "Approve"), InboxChoice("deny", "Deny"))
_LASTING_CHOICES: Final = (
    InboxChoice("approve", "Approve until it is upgraded"),
    InboxChoice("approve_once", "Approve once"),
    InboxChoice("deny", "Deny"),
)
_WITHDRAW: Final = (InboxChoice("deny", "Withdraw", "Withdraw this request? The call is not made."),)


class ApprovalSource:
    """Pending approval requests.

    Args:
        database: Holds them.
        clock: Expired requests are left out.
    """

    kinds = frozenset(_KINDS)

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def page(self, query: InboxQuery) -> list[InboxItem]:
        kinds = tuple(kind for wanted, kinds in _KINDS.items() if wanted in query.kinds for kind in kinds)
        list_requests = approval_parties.list_with_others if query.with_others else approval_parties.list_answerable
        after = None if query.after is None else Urgency(*query.after)
        by, now = query.principal, self._clock.now().isoformat()
        requests = await self._database.read(
            lambda tx: list_requests(tx, by, now, kinds=kinds, after=after, limit=query.limit)
        )
        return [approval_item(request, by, with_others=query.with_others) for request in requests]

    async def counts(self, principal: Principal, limit: int, *, with_others: bool) -> Mapping[InboxKind, int]:
        count, now = (
            approval_parties.count_with_others if with_others else approval_parties.count_answerable,
            self._clock.now(),
        )

        def query(tx: Transaction) -> dict[InboxKind, int]:
            return {kind: count(tx, principal, now.isoformat(), kinds, limit) for kind, kinds in _KINDS.items()}

        return await self._database.read(query)

    async def find(self, principal: Principal, item_id: str) -> InboxItem | None:
        now, kinds = self._clock.now().isoformat(), tuple(kind for kinds in _KINDS.values() for kind in kinds)

        def query(tx: Transaction) -> tuple[WaitingApproval | None, bool]:
            answerable = approval_parties.find_answerable(tx, principal, now, kinds=kinds, approval_id=item_id)
            return answerable or approval_parties.find_with_others(
                tx, principal, now, kinds=kinds, approval_id=item_id
            ), answerable is None

        request, with_others = await self._database.read(query)
        return None if request is None else approval_item(request, principal, with_others=with_others)


def approval_item(request: WaitingApproval, by: Principal, *, with_others: bool) -> InboxItem:
    """Return a request as an item. One whose inputs are too long for a list has to be opened. Pure."""
    consent = request.kind == ApprovalRequestKind.CONSENT
    own = by.id in (request.requester, request.for_person)
    # A rule may withhold its reason from the requester, and a name may tell it.
    withheld = bool(request.public_reason) and OPERATOR not in by.roles
    if with_others:
        choices = _WITHDRAW if own else ()
    elif request.payload is None:
        choices = ()
    else:
        choices = _CHOICES if request.remember == "never" else _LASTING_CHOICES
    return InboxItem(
        id=request.id,
        kind=InboxKind.CONSENT if consent else InboxKind.APPROVAL,
        title=f"{request.plugin} · {request.callable}",
        detail=request.public_reason if withheld else request.reason,
        risk=request.risk,
        link=f"/approvals/{quote(request.id, safe='')}",
        requester=request.requester,
        for_person=request.for_person,
        plugin=request.plugin,
        callable=request.callable,
        effects=request.effects,
        answerable_by=request.answerable_by,
        needed=max(0, request.quorum - request.approvals),
        choices=choices,
        inputs=request.payload,
        rules=() if withheld else tuple(policy.partition("@")[0] for policy in request.policies),
        binding=request.binding_hash,
        action=Action.of("approval.deny" if with_others else "approval.approve", approval=request.id, tenant=by.tenant),
        reference=request.call,
        created_at=request.created_at,
        expires_at=request.expires_at,
    )
