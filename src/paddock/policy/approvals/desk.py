"""Where calls ask for a person's yes and people give it. Owns nothing but the way to the rows."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.errors import Denied
from paddock.core.ids import Tenant
from paddock.policy.approvals import answering, expiring, rows, standing, using
from paddock.policy.approvals.answering import Remember
from paddock.policy.approvals.approval import Approval, State
from paddock.policy.approvals.asking import Asked, ask, new_token
from paddock.policy.approvals.binding import Subject
from paddock.policy.approvals.room import Room, require_room
from paddock.policy.approvals.standing import Standing
from paddock.policy.approvals.unit import PublishIn, Unit
from paddock.policy.approvals.who_may_answer import Answerer
from paddock.store.database import Database, Transaction

T = TypeVar("T")
_BETWEEN = "."  # the id of a request and its secret, in a token


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
        self, database: Database, clock: Clock, random: Random, publish_in: PublishIn, *, room: Room | None = None
    ) -> None:
        self._database = database
        self._clock = clock
        self._random = random
        self._publish_in = publish_in
        self._room = room or Room()

    # --- asking -------------------------------------------------------------------------------------------------------

    async def standing_for(self, subject: Subject, holder: str, session: str | None) -> Standing | None:
        """A standing approval that is good for this, where there is one."""
        found = await self._database.read(lambda tx: standing.all_standing(tx, subject.tenant, holder))
        return next((one for one in found if one.covers(subject, holder, session)), None)

    async def ask(self, asked: Asked, also: Callable[[Transaction], None] | None = None) -> tuple[Approval, str]:
        """Put a request where people see it; `also` is done in the same unit of work.

        Returns:
            The request, and the token with which whoever asked may claim the call, once; see `claim`. It is kept
            nowhere.

        Raises:
            Busy: as much waits already as may.
        """
        secret = new_token()

        def unit(work: Unit) -> Approval:
            require_room(work.tx, asked.subject.tenant, asked.requester, asked.payload, self._room)
            if also is not None:
                also(work.tx)
            return ask(work, asked, secret)

        approval = await self._write(asked.subject.tenant, unit)
        return approval, f"{approval.id}{_BETWEEN}{secret}"

    async def claimable(self, tenant: str, token: str, by: str) -> Approval:
        """The request that a token was given out for.

        Raises:
            Denied: there is none, somebody else asked for it, or the token was used. Which of these, nobody is told.
        """
        name, _, secret = token.partition(_BETWEEN)

        def unit(tx: Transaction) -> Approval | None:
            found = rows.find(tx, tenant, name) if rows.token_fits(tx, tenant, name, secret) else None
            return found if found is not None and found.binding.requester == by else None

        return _good(await self._database.read(unit))

    async def claim(self, tenant: str, token: str) -> None:
        """Use a token up; see `claimable`.

        Raises:
            Denied: somebody else was first.
        """
        name, _, secret = token.partition(_BETWEEN)
        _good(await self._database.write(lambda tx: rows.spend_token(tx, tenant, name, secret)) or None)

    # --- looking ------------------------------------------------------------------------------------------------------

    async def find(self, tenant: str, approval_id: str) -> Approval:
        """One request.

        Raises:
            NotFound: this tenant has none of that id.
        """
        return await self._database.read(lambda tx: rows.find(tx, tenant, approval_id))

    async def page(
        self, tenant: str, states: tuple[State, ...] = (), *, before: str | None = None, limit: int = 100
    ) -> list[Approval]:
        """Some requests of a tenant without their payloads, newest first, in these states or in all.

        Raises:
            NotFound: this tenant has none of the id that they are to come before.
        """
        return await self._database.read(lambda tx: rows.page(tx, tenant, states, before=before, limit=limit))

    async def all_open(self, plugin: str | None = None) -> AsyncGenerator[Approval, None]:
        """Every request of all tenants that has not ended, oldest first; of one plugin, or of all."""
        after = ""
        while some := await self._database.read(partial(rows.open_after, after=after, plugin=plugin)):
            for approval in some:
                yield approval
            after = some[-1].id

    async def waiting(self) -> dict[str, State]:
        """The calls of all tenants that wait for a person, or have a yes and were not made yet."""
        return await self._database.read(rows.waiting_calls)

    async def latest_of(self, tenant: str, call: str) -> Approval | None:
        """The last request about a call, where there is one."""
        return await self._database.read(lambda tx: rows.latest_of(tx, tenant, call))

    async def standing(self, tenant: str, *, revoked: bool = False) -> list[Standing]:
        """The standing approvals that were not revoked, or all."""
        return await self._database.read(lambda tx: standing.all_standing(tx, tenant, revoked=revoked))

    async def replacement_of(self, approval: Approval) -> str | None:
        """The id of the request that took this one's place, where somebody changed the parameters."""
        return await self._database.read(lambda tx: rows.replacement_of(tx, approval))

    async def standing_from(self, approval: Approval) -> str | None:
        """The id of the standing approval that came out of a request, where one did."""
        tenant = approval.binding.subject.tenant
        return await self._database.read(lambda tx: standing.given_with(tx, tenant, approval.id))

    # --- answering ----------------------------------------------------------------------------------------------------

    async def approve(
        self,
        tenant: str,
        approval_id: str,
        by: Principal,
        *,
        through: str | None = None,
        comment: str = "",
        remember: Remember | None = None,
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
        remembered = remember or Remember()
        return await self._write(
            tenant,
            lambda unit: answering.approve(unit, approval_id, Answerer(by, through), comment, remembered, payload),
        )

    async def deny(
        self, tenant: str, approval_id: str, by: Principal, *, through: str | None = None, comment: str = ""
    ) -> Approval:
        """Say no, which one person can. Errors are those of `approve`.

        Whoever asks and may not answer takes it back with this: the request is withdrawn.
        """
        return await self._write(tenant, lambda unit: answering.deny(unit, approval_id, Answerer(by, through), comment))

    async def revoke(self, tenant: str, standing_id: str, by: Principal, *, through: str | None = None) -> Standing:
        """End a standing approval. Harmless when it has ended.

        Raises:
            NotFound: there is none.
        """
        return await self._write(tenant, lambda unit: answering.revoke(unit, standing_id, Answerer(by, through)))

    # --- using --------------------------------------------------------------------------------------------------------

    def consume(
        self,
        tx: Transaction,
        tenant: str,
        approval_id: str,
        *,
        subject: Subject,
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
        unit = self._unit(tx, tenant)
        return using.consume(
            unit, approval_id, subject=subject, payload_hash=payload_hash, requester=requester, asked=asked
        )

    def require_standing(self, tx: Transaction, tenant: str, standing_id: str) -> None:
        """See to it, in the unit in which a call starts, that the lasting yes it starts with was not revoked.

        Raises:
            Conflict: it was.
        """
        standing.require(tx, tenant, standing_id)

    async def void(self, tenant: str, approval_id: str, why: str) -> None:
        """What it was about is not there any more. Harmless when it is over."""
        await self._ended(tenant, approval_id, State.VOIDED, why)

    async def withdraw(self, tenant: str, call: str, why: str) -> None:
        """Whoever made a call does not want it any more: end what is open about it, edited ones too."""

        def unit(work: Unit) -> None:
            for approval in rows.open_of(work.tx, tenant, call):
                using.end(work, approval, State.WITHDRAWN, why)

        await self._write(tenant, unit)

    async def expire(self) -> list[Approval]:
        """End some of the requests whose time is over, and give them; none are left once this gives none."""

        def unit(tx: Transaction) -> list[Approval]:
            over = rows.overdue(tx, self._clock.now().isoformat())
            for approval in over:
                tenant = approval.binding.subject.tenant
                using.end(self._unit(tx, tenant), approval, State.EXPIRED, "nobody answered in time")
            return over

        return await self._database.write(unit)

    async def expire_one(self, tenant: str, approval_id: str) -> Approval | None:
        """End this request if its time is over, and give it; None where it had ended, or its time is not over.

        Raises:
            NotFound: there is none.
        """
        return await self._write(tenant, lambda unit: expiring.expire(unit, approval_id))

    async def _ended(self, tenant: str, approval_id: str, state: State, why: str) -> None:
        await self._write(tenant, lambda unit: using.end(unit, rows.find(unit.tx, tenant, approval_id), state, why))

    async def _write(self, tenant: str, work: Callable[[Unit], T]) -> T:
        return await self._database.write(lambda tx: work(self._unit(tx, tenant)))

    def _unit(self, tx: Transaction, tenant: str) -> Unit:
        now = self._clock.now().isoformat()
        return Unit(tx, Tenant(tenant), now, self._clock, self._random, self._publish_in)


def _good(found: T | None) -> T:
    if found is None:
        raise Denied(
            "this approval token is not good, or not any more",
            code="approval.token",
            hint="it is for whoever asked, and works once; look at the call itself: paddock calls show",
        )
    return found
