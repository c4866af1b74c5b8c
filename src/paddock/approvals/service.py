"""The approval service: requests, answers, tokens, standing approvals and expiry. Stateless above the database."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from msgspec.structs import replace

from paddock.approvals import answer, consume, open_requests, standing_approval, store
from paddock.approvals.access import Answerer
from paddock.approvals.answer import RememberChoice
from paddock.approvals.deadlines import NearestDeadlines
from paddock.approvals.model import Approval, ApprovalState, ApprovedAction
from paddock.approvals.open_requests import UnusedApproval
from paddock.approvals.request import ApprovalRequest, PendingLimits, check_pending_limits, create_request, new_token
from paddock.approvals.standing_approval import StandingApproval
from paddock.approvals.store import ApprovalTransaction, TransactionPublisher
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Conflict, Denied
from paddock.core.ids import Tenant
from paddock.store.database import Database, Transaction

T = TypeVar("T")
ENDED_PER_UNIT = 50  # requests that end in one transaction, so that other calls are written in between
_SEPARATOR = "."  # between the request's id and its secret, in a token


class Approvals:
    """The approval requests of all tenants.

    Args:
        database: Holds the requests.
        clock: Determines when they expire.
        random: Makes their ids. Tokens and nonces come from a secure source regardless.
        publish_in: Returns the event sink of a transaction.
        limits: Limits on pending requests.
        deadlines: Is told of the deadlines of new requests; whoever expires them has the same.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        random: Random,
        publish_in: TransactionPublisher,
        *,
        limits: PendingLimits | None = None,
        deadlines: NearestDeadlines | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._random = random
        self._publish_in = publish_in
        self._limits = limits or PendingLimits()
        self._deadlines = deadlines or NearestDeadlines()

    # --- requests -----------------------------------------------------------------------------------------------------

    async def standing_for(self, subject: ApprovedAction, holder: str, session: str | None) -> StandingApproval | None:
        """Find a standing approval that covers this action; None if there is none."""
        return await self._database.read(lambda tx: standing_approval.find_covering(tx, subject, holder, session))

    def is_covered(self, tx: Transaction, request: ApprovalRequest) -> bool:
        """Return whether a standing approval covers this request, in the transaction that would create it."""
        session = request.context.get("session")
        return standing_approval.find_covering(tx, request.subject, request.requester, session) is not None

    async def ask(
        self, request: ApprovalRequest, also: Callable[[Transaction], None] | None = None
    ) -> tuple[Approval, str]:
        """Create a request for approval; `also` runs in the same transaction.

        Returns:
            The request, and the token with which the requester may redeem the call, once; see `redeem_token`. The token
            itself is not stored.

        Raises:
            Busy: too much is pending already.
        """
        secret = new_token()

        def create(unit: ApprovalTransaction) -> Approval:
            check_pending_limits(unit.tx, request.subject.tenant, request.requester, request.payload, self._limits)
            if also is not None:
                also(unit.tx)
            return create_request(unit, request, secret)

        approval = await self._write(request.subject.tenant, create)
        self._deadlines.note(request.subject.tenant, approval.binding.expires_at)
        return approval, f"{approval.id}{_SEPARATOR}{secret}"

    async def find_by_token(self, tenant: str, token: str, by: str) -> Approval:
        """Find the request of a token.

        Raises:
            Denied: there is none, it is of another requester, or the token was used. The error does not tell which.
        """
        approval_id, _, secret = token.partition(_SEPARATOR)

        def query(tx: Transaction) -> Approval | None:
            approval = (
                store.find_request(tx, tenant, approval_id)
                if store.token_matches(tx, tenant, approval_id, secret)
                else None
            )
            return approval if approval is not None and approval.binding.requester == by else None

        return _require_valid_token(await self._database.read(query))

    async def redeem_token(self, tenant: str, token: str) -> None:
        """Redeem a token, once; see `find_by_token`.

        Raises:
            Denied: it was redeemed before.
        """
        approval_id, _, secret = token.partition(_SEPARATOR)
        _require_valid_token(
            await self._database.write(lambda tx: store.spend_token(tx, tenant, approval_id, secret)) or None
        )

    # --- queries ------------------------------------------------------------------------------------------------------

    async def find(self, tenant: str, approval_id: str) -> Approval:
        """Return one request.

        Raises:
            NotFound: this tenant has no request of that id.
        """
        return await self._database.read(lambda tx: store.find_request(tx, tenant, approval_id))

    async def page(
        self,
        tenant: str,
        *,
        open_only: bool = False,
        to: Principal | None = None,
        before: str | None = None,
        limit: int = store.REQUESTS_PAGE_ROWS,
        short_payloads: bool = False,
    ) -> list[Approval]:
        """Return a page of requests, newest first: all or the open ones, of a tenant or visible `to` a principal.

        They are without payloads; with `short_payloads` only those without one that are too long for a list.

        Raises:
            NotFound: this tenant has no request of the id `before`.
        """
        return await self._database.read(
            lambda tx: store.list_requests(
                tx, tenant, open_only=open_only, to=to, before=before, limit=limit, short_payloads=short_payloads
            )
        )

    async def list_unused(self, after: str, plugin: str | None = None) -> list[UnusedApproval]:
        """Return some of the requests of all tenants, or of one plugin, that are approved and whose calls were not
        made: those with the next ids."""
        now = self._clock.now().isoformat()
        return await self._database.read(partial(open_requests.list_unused, after=after, now=now, plugin=plugin))

    async def iter_unused(self, plugin: str | None = None) -> AsyncGenerator[UnusedApproval, None]:
        """Yield all of them."""
        after = ""
        while batch := await self.list_unused(after, plugin):
            for unused in batch:
                yield unused
            after = batch[-1].id

    async def open_states(self, calls: Sequence[str]) -> dict[str, ApprovalState]:
        """Return which of some calls wait for approval, or are approved and were not made yet."""
        return await self._database.read(lambda tx: open_requests.open_states(tx, calls))

    async def count_waiting(self, limit: int) -> int:
        """Count the open requests of all tenants, at most so many."""
        return await self._database.read(lambda tx: open_requests.count_waiting(tx, limit))

    async def requests_of_call(self, tenant: str, call: str) -> tuple[Approval | None, int]:
        """Return the latest request about a call, if there is one, and how many there were."""
        return await self._database.read(
            lambda tx: (store.latest_for_call(tx, tenant, call), store.count_requests(tx, tenant, call))
        )

    async def latest_for_call(self, tenant: str, call: str) -> Approval | None:
        """Return the latest request about a call, if there is one."""
        return await self._database.read(lambda tx: store.latest_for_call(tx, tenant, call))

    async def list_standing(self, tenant: str, *, revoked: bool = False) -> list[StandingApproval]:
        """List the standing approvals of a tenant: those in force, or also `revoked` ones."""
        return await self._database.read(lambda tx: standing_approval.list_standing(tx, tenant, revoked=revoked))

    async def find_replacement(self, approval: Approval) -> str | None:
        """Return the id of the request that replaced this one after an edit, if any."""
        return await self._database.read(lambda tx: store.find_replacement(tx, approval))

    async def find_standing_created_by(self, approval: Approval) -> str | None:
        """Return the id of the standing approval that a request created, if any."""
        tenant = approval.binding.subject.tenant
        return await self._database.read(lambda tx: standing_approval.find_created_by(tx, tenant, approval.id))

    async def list_answered_by(self, tenant: str, standing_id: str) -> list[Approval]:
        """List the requests that waited when a standing approval was given, and that it answered."""
        return await self._database.read(lambda tx: store.list_answered_by(tx, tenant, standing_id))

    # --- answers ------------------------------------------------------------------------------------------------------

    async def approve(
        self,
        tenant: str,
        approval_id: str,
        by: Principal,
        *,
        through: str | None = None,
        comment: str = "",
        remember: RememberChoice | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> Approval:
        """Approve a request. A standing approval also answers what waits already and is covered by it.

        Args:
            tenant: The tenant.
            approval_id: The request.
            by: The approver.
            through: The operator who passes the answer on, as in `local:root`, if not given in person.
            comment: Stored with the answer.
            remember: How far the approval is to be remembered; by default a confirmation is remembered for its tool if
                the rules allow it, and nothing else is.
            payload: Edited parameters: they are approved in a request that replaces this one. If four eyes are
                required, the new request still needs the approval of another person.

        Returns:
            The request as it is now: approved, or pending if more people are needed.

        Raises:
            NotFound: there is none.
            Denied: the principal may not answer it, or it may not be remembered that far.
            Conflict: it has ended, or the principal has already answered.
        """
        return await self._write(
            tenant,
            lambda unit: answer.approve(unit, approval_id, Answerer(by, through), comment, remember, payload),
        )

    async def deny(
        self, tenant: str, approval_id: str, by: Principal, *, through: str | None = None, comment: str = ""
    ) -> Approval:
        """Deny a request; one person suffices. Raises as `approve` does.

        A requester who may not answer withdraws the request with this.
        """
        return await self._write(tenant, lambda unit: answer.deny(unit, approval_id, Answerer(by, through), comment))

    async def revoke(
        self, tenant: str, standing_id: str, by: Principal, *, through: str | None = None
    ) -> StandingApproval:
        """Revoke a standing approval. Does nothing if it was revoked already.

        Raises:
            NotFound: there is none.
        """
        return await self._write(tenant, lambda unit: answer.revoke_standing(unit, standing_id, Answerer(by, through)))

    # --- use and end --------------------------------------------------------------------------------------------------

    def consume(
        self,
        tx: Transaction,
        tenant: str,
        approval_id: str,
        *,
        subject: ApprovedAction,
        payload_hash: str,
        requester: str,
        still_asked: bool = True,
    ) -> Approval:
        """Consume an approval for a call that starts in the same transaction. Of any number of callers, one succeeds.

        Args:
            tx: The transaction in which the call starts.
            tenant: The tenant.
            approval_id: The request.
            subject: The action as it is now.
            payload_hash: The hash of the call's parameters.
            requester: The principal that makes the call.
            still_asked: Whether the rules still require an approval now; if not, the rules are not compared.

        Raises:
            NotFound: there is none.
            ApprovalMismatch: it was given for something else; `void` it.
            Conflict: it is not approved, was consumed, or has expired.
        """
        unit = self._transaction(tx, tenant)
        return consume.consume_approval(
            unit, approval_id, subject=subject, payload_hash=payload_hash, requester=requester, still_asked=still_asked
        )

    def require_standing(self, tx: Transaction, tenant: str, standing_id: str) -> None:
        """Check, in the transaction in which a call starts, that the standing approval it uses was not revoked.

        Raises:
            Conflict: it was revoked.
        """
        standing_approval.require_active(tx, tenant, standing_id)

    async def void(self, tenant: str, approval_id: str, reason: str) -> None:
        """Void a request whose action is gone. Does nothing if it has ended."""
        await self._end_request(tenant, approval_id, ApprovalState.VOIDED, reason)

    async def withdraw(self, tenant: str, call: str, reason: str) -> None:
        """End all open requests about a call that its caller no longer wants, edited ones too."""

        def end_open(unit: ApprovalTransaction) -> None:
            for approval in store.open_for_call(unit.tx, tenant, call):
                consume.end_request(unit, approval, ApprovalState.WITHDRAWN, reason)

        await self._write(tenant, end_open)

    async def void_pending(
        self, tenant: str, plugin: str, callables: Collection[str], reason: str
    ) -> AsyncGenerator[Approval, None]:
        """Void the requests that wait for an answer about some callables of a plugin, in batches, and yield them."""

        def void_batch(unit: ApprovalTransaction) -> list[Approval]:
            pending = open_requests.list_open_of_plugin(unit.tx, tenant, plugin, callables, ENDED_PER_UNIT)
            for approval in pending:
                consume.end_request(unit, approval, ApprovalState.VOIDED, reason)
            return [
                replace(approval, state=ApprovalState.VOIDED, ended_at=unit.now, ended_why=reason)
                for approval in pending
            ]

        while True:
            try:
                batch = await self._write(tenant, void_batch)
            except Conflict:
                continue  # one of them was answered at the same moment, at another host
            if not batch:
                return
            for approval in batch:
                yield approval

    async def refresh_deadlines(self) -> None:
        """Ask the store for the nearest deadline of each tenant."""
        with self._deadlines.reading() as asked:
            asked.replace(await self._database.read(open_requests.nearest_deadlines))

    async def expire(self, tenant: str) -> list[Approval]:
        """Expire some overdue requests of a tenant, and return them; notes its next deadline, which may be over too."""

        def expire_batch(unit: ApprovalTransaction) -> tuple[list[Approval], str | None]:
            why = "it was not answered in time"
            expired = open_requests.expire_overdue(unit.tx, tenant, unit.now, why, ENDED_PER_UNIT)
            for approval in expired:
                consume.publish_end(unit, approval, ApprovalState.EXPIRED, why)
            return expired, open_requests.nearest_deadline(unit.tx, tenant)

        with self._deadlines.reading() as asked:
            expired, nearest = await self._write(tenant, expire_batch)
            asked.put(tenant, nearest)
        return expired

    async def _end_request(self, tenant: str, approval_id: str, state: ApprovalState, reason: str) -> None:
        await self._write(
            tenant,
            lambda unit: consume.end_request(unit, store.find_request(unit.tx, tenant, approval_id), state, reason),
        )

    async def _write(self, tenant: str, write: Callable[[ApprovalTransaction], T]) -> T:
        return await self._database.write(lambda tx: write(self._transaction(tx, tenant)))

    def _transaction(self, tx: Transaction, tenant: str) -> ApprovalTransaction:
        now = self._clock.now().isoformat()
        return ApprovalTransaction(tx, Tenant(tenant), now, self._clock, self._random, self._publish_in)


def _require_valid_token(value: T | None) -> T:
    if value is None:
        raise Denied(
            "the approval token is invalid or expired",
            code="approval.token",
            hint="a token works once, for the caller that it was issued to",
        )
    return value
