"""Where calls ask for a person's yes and people give it. Owns nothing but the way to the rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from paddock.approvals import answer, consume, standing, store
from paddock.approvals.access import Answerer
from paddock.approvals.answer import RememberChoice
from paddock.approvals.model import Approval, ApprovalState, ApprovedAction
from paddock.approvals.request import ApprovalRequest, PendingLimits, check_pending_limits, create_request, new_token
from paddock.approvals.standing import StandingApproval
from paddock.approvals.store import ApprovalTransaction, TransactionPublisher
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Denied
from paddock.core.ids import Tenant
from paddock.store.database import Database, Transaction

T = TypeVar("T")
_SEPARATOR = "."  # the id of a request and its secret, in a token


class Approvals:
    """The requests of all tenants.

    Args:
        database: Where they are kept.
        clock: Tells when they end.
        random: Makes their ids. Tokens and nonces are not guessable, whatever it gives.
        publish_in: Where a unit of work tells what it did.
        room: How much may wait at once.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        random: Random,
        publish_in: TransactionPublisher,
        *,
        room: PendingLimits | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self._random = random
        self._publish_in = publish_in
        self._room = room or PendingLimits()

    # --- asking -------------------------------------------------------------------------------------------------------

    async def standing_for(self, subject: ApprovedAction, holder: str, session: str | None) -> StandingApproval | None:
        """A standing approval that is good for this, where there is one."""
        found = await self._database.read(lambda tx: standing.list_standing(tx, subject.tenant, holder))
        return next((one for one in found if one.covers(subject, holder, session)), None)

    async def ask(
        self, asked: ApprovalRequest, also: Callable[[Transaction], None] | None = None
    ) -> tuple[Approval, str]:
        """Put a request where people see it; `also` is done in the same unit of work.

        Returns:
            The request, and the token with which whoever asked may claim the call, once; see `claim`. It is kept
            nowhere.

        Raises:
            Busy: as much waits already as may.
        """
        secret = new_token()

        def unit(work: ApprovalTransaction) -> Approval:
            check_pending_limits(work.tx, asked.subject.tenant, asked.requester, asked.payload, self._room)
            if also is not None:
                also(work.tx)
            return create_request(work, asked, secret)

        approval = await self._write(asked.subject.tenant, unit)
        return approval, f"{approval.id}{_SEPARATOR}{secret}"

    async def find_by_token(self, tenant: str, token: str, by: str) -> Approval:
        """The request that a token was given out for.

        Raises:
            Denied: there is none, somebody else asked for it, or the token was used. Which of these, nobody is told.
        """
        name, _, secret = token.partition(_SEPARATOR)

        def unit(tx: Transaction) -> Approval | None:
            found = store.find_request(tx, tenant, name) if store.token_matches(tx, tenant, name, secret) else None
            return found if found is not None and found.binding.requester == by else None

        return _require_valid_token(await self._database.read(unit))

    async def redeem_token(self, tenant: str, token: str) -> None:
        """Use a token up; see `claimable`.

        Raises:
            Denied: somebody else was first.
        """
        name, _, secret = token.partition(_SEPARATOR)
        _require_valid_token(await self._database.write(lambda tx: store.spend_token(tx, tenant, name, secret)) or None)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def find(self, tenant: str, approval_id: str) -> Approval:
        """One request.

        Raises:
            NotFound: this tenant has none of that id.
        """
        return await self._database.read(lambda tx: store.find_request(tx, tenant, approval_id))

    async def page(
        self, tenant: str, states: tuple[ApprovalState, ...] = (), *, before: str | None = None, limit: int = 100
    ) -> list[Approval]:
        """Some requests of a tenant without their payloads, newest first, in these states or in all.

        Raises:
            NotFound: this tenant has none of the id that they are to come before.
        """
        return await self._database.read(lambda tx: store.list_requests(tx, tenant, states, before=before, limit=limit))

    async def iter_open(self, plugin: str | None = None) -> AsyncGenerator[Approval, None]:
        """Every request of all tenants that has not ended, oldest first; of one plugin, or of all."""
        after = ""
        while some := await self._database.read(partial(store.list_open_after, after=after, plugin=plugin)):
            for approval in some:
                yield approval
            after = some[-1].id

    async def waiting_calls(self) -> dict[str, ApprovalState]:
        """The calls of all tenants that wait for a person, or have a yes and were not made yet."""
        return await self._database.read(store.waiting_calls)

    async def latest_for_call(self, tenant: str, call: str) -> Approval | None:
        """The last request about a call, where there is one."""
        return await self._database.read(lambda tx: store.latest_for_call(tx, tenant, call))

    async def list_standing(self, tenant: str, *, revoked: bool = False) -> list[StandingApproval]:
        """The standing approvals that were not revoked, or all."""
        return await self._database.read(lambda tx: standing.list_standing(tx, tenant, revoked=revoked))

    async def find_replacement(self, approval: Approval) -> str | None:
        """The id of the request that took this one's place, where somebody changed the parameters."""
        return await self._database.read(lambda tx: store.find_replacement(tx, approval))

    async def find_standing_created_by(self, approval: Approval) -> str | None:
        """The id of the standing approval that came out of a request, where one did."""
        tenant = approval.binding.subject.tenant
        return await self._database.read(lambda tx: standing.find_created_by(tx, tenant, approval.id))

    # --- answering ----------------------------------------------------------------------------------------------------

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
        """Say yes.

        Args:
            tenant: Whose request it is.
            approval_id: Which one.
            by: Who says it.
            through: The operator who passes it on, as in `local:root`, where they do not say it themselves.
            comment: Kept beside the answer.
            remember: Whether the yes is to be good for more than this call.
            payload: Other parameters: the yes is then to these, in a request that replaces this one. Where four eyes
                hold it is no yes: another person has to say it.

        Returns:
            The request as it is now: approved, or pending where more people are needed.

        Raises:
            NotFound: there is none.
            Denied: they may not answer it, or a yes to it may not be remembered that far.
            Conflict: it is over, or they have answered before.
        """
        remembered = remember or RememberChoice()
        return await self._write(
            tenant,
            lambda unit: answer.approve(unit, approval_id, Answerer(by, through), comment, remembered, payload),
        )

    async def deny(
        self, tenant: str, approval_id: str, by: Principal, *, through: str | None = None, comment: str = ""
    ) -> Approval:
        """Say no, which one person can. Errors are those of `approve`.

        Whoever asks and may not answer takes it back with this: the request is withdrawn.
        """
        return await self._write(tenant, lambda unit: answer.deny(unit, approval_id, Answerer(by, through), comment))

    async def revoke(
        self, tenant: str, standing_id: str, by: Principal, *, through: str | None = None
    ) -> StandingApproval:
        """End a standing approval. Harmless when it has ended.

        Raises:
            NotFound: there is none.
        """
        return await self._write(tenant, lambda unit: answer.revoke_standing(unit, standing_id, Answerer(by, through)))

    # --- using --------------------------------------------------------------------------------------------------------

    def consume(
        self,
        tx: Transaction,
        tenant: str,
        approval_id: str,
        *,
        subject: ApprovedAction,
        payload_hash: str,
        requester: str,
        asked: bool = True,
    ) -> Approval:
        """Use an approval for a call that starts in this same unit of work. Of any number of callers, one succeeds.

        Args:
            tx: The unit in which the call starts.
            tenant: Whose it is.
            approval_id: Which one.
            subject: What is to be done, as it is now.
            payload_hash: Of the parameters that the call is made with.
            requester: Who makes it.
            asked: Whether the rules want a person asked now; those that did are not compared otherwise.

        Raises:
            NotFound: there is none.
            Changed: it is for something else than this; `void` it.
            Conflict: it is not approved, was used, or has expired.
        """
        unit = self._transaction(tx, tenant)
        return consume.consume_approval(
            unit, approval_id, subject=subject, payload_hash=payload_hash, requester=requester, asked=asked
        )

    def require_standing(self, tx: Transaction, tenant: str, standing_id: str) -> None:
        """See to it, in the unit in which a call starts, that the lasting yes it starts with was not revoked.

        Raises:
            Conflict: it was.
        """
        standing.require_active(tx, tenant, standing_id)

    async def void(self, tenant: str, approval_id: str, why: str) -> None:
        """What it was about is not there any more. Harmless when it is over."""
        await self._end_request(tenant, approval_id, ApprovalState.VOIDED, why)

    async def withdraw(self, tenant: str, call: str, why: str) -> None:
        """Whoever made a call does not want it any more: end what is open about it, edited ones too."""

        def unit(work: ApprovalTransaction) -> None:
            for approval in store.open_for_call(work.tx, tenant, call):
                consume.end_request(work, approval, ApprovalState.WITHDRAWN, why)

        await self._write(tenant, unit)

    async def expire(self) -> list[Approval]:
        """End some of the requests whose time is over, and give them; none are left once this gives none."""

        def unit(tx: Transaction) -> list[Approval]:
            over = store.list_overdue(tx, self._clock.now().isoformat())
            for approval in over:
                tenant = approval.binding.subject.tenant
                consume.end_request(
                    self._transaction(tx, tenant), approval, ApprovalState.EXPIRED, "nobody answered in time"
                )
            return over

        return await self._database.write(unit)

    async def expire_one(self, tenant: str, approval_id: str) -> Approval | None:
        """End this request if its time is over, and give it; None where it had ended, or its time is not over.

        Raises:
            NotFound: there is none.
        """
        return await self._write(tenant, lambda unit: consume.expire_request(unit, approval_id))

    async def _end_request(self, tenant: str, approval_id: str, state: ApprovalState, why: str) -> None:
        await self._write(
            tenant, lambda unit: consume.end_request(unit, store.find_request(unit.tx, tenant, approval_id), state, why)
        )

    async def _write(self, tenant: str, work: Callable[[ApprovalTransaction], T]) -> T:
        return await self._database.write(lambda tx: work(self._transaction(tx, tenant)))

    def _transaction(self, tx: Transaction, tenant: str) -> ApprovalTransaction:
        now = self._clock.now().isoformat()
        return ApprovalTransaction(tx, Tenant(tenant), now, self._clock, self._random, self._publish_in)


def _require_valid_token(found: T | None) -> T:
    if found is None:
        raise Denied(
            "this approval token is not good, or not any more",
            code="approval.token",
            hint="it is for whoever asked, and works once; look at the call itself: paddock calls show",
        )
    return found
