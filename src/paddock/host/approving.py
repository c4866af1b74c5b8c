"""People in the loop: what waits for them, and what happens when they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict, Denied
from paddock.gate.catalogue import Target
from paddock.gate.held import preview
from paddock.gate.live_call import LiveCall
from paddock.gate.resume import Resumption
from paddock.policy.approvals.answering import Remember
from paddock.policy.approvals.approval import OPEN, Approval, State
from paddock.policy.approvals.desk import Approvals
from paddock.policy.approvals.rows import unknown
from paddock.policy.approvals.standing import Standing
from paddock.policy.approvals.who_may_answer import Answerer, require_may_answer
from paddock.policy.approvals.who_may_see import is_shown, is_shown_standing

LISTED = 100  # requests in a page, where nobody says how many
MOST_LISTED = 1_000


class Approving:
    """Requests that wait for a person, for whoever shows them and takes answers. Every answer is from somebody.

    Args:
        approvals: Where they are kept.
        resumption: Goes on with the calls that they are about.
    """

    def __init__(self, approvals: Approvals, resumption: Resumption) -> None:
        self._approvals = approvals
        self._resumption = resumption

    async def listed(
        self,
        tenant: str,
        *,
        ended: bool = False,
        before: str | None = None,
        limit: int = LISTED,
        to: Principal | None = None,
    ) -> list[dict[str, Any]]:
        """The requests of a tenant as data, newest first; those that are open, or all. What they would be done with is
        left out: it may be large, and whoever answers looks at the request itself.

        Args:
            tenant: Whose.
            ended: Whether also those that ended.
            before: Only those before the one with this id.
            limit: How many.
            to: Only those that this one may know of.

        Raises:
            NotFound: there is none of the id that they are to come before.
        """
        states = () if ended else tuple(sorted(OPEN))
        found: list[Approval] = []
        while len(found) < limit:
            page = await self._approvals.page(tenant, states, before=before, limit=limit)
            found += [one for one in page if to is None or is_shown(one, to)]
            if len(page) < limit:
                break
            before = page[-1].id
        return self._listed(found[:limit], to)

    def _listed(self, approvals: Iterable[Approval], to: Principal | None) -> list[dict[str, Any]]:
        return [_without_params(self._shown(one, to)) for one in approvals]

    async def pending(self, by: Principal, *, limit: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What waits, as `listed` shows it: for the answer of this one, and of what else they may know, for others'."""
        theirs: list[Approval] = []
        others: list[Approval] = []
        before: str | None = None
        while len(theirs) < limit:
            page = await self._approvals.page(by.tenant, (State.PENDING,), before=before, limit=LISTED)
            for one in page:
                if is_shown(one, by):
                    (theirs if _may_answer(one, by) else others).append(one)
            if len(page) < LISTED:
                break
            before = page[-1].id
        return self._listed(theirs[:limit], by), self._listed(others[:limit], by)

    async def find(self, tenant: str, approval_id: str, *, to: Principal | None = None) -> dict[str, Any]:
        """One request as data, with what took its place and the standing approval that came out of it.

        Raises:
            NotFound: there is none, or not for this one to know of.
        """
        found = await self._approvals.find(tenant, approval_id)
        if to is not None and not is_shown(found, to):
            raise unknown(approval_id)
        return self._shown(found, to) | {
            "replaced_by": await self._approvals.replacement_of(found),
            "standing": await self._approvals.standing_from(found),
        }

    async def approve(
        self,
        approval_id: str,
        by: Principal,
        *,
        through: str | None = None,
        comment: str = "",
        remember: Remember | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Say yes; the call is made as soon as enough people did. See `Approvals.approve`.

        Raises:
            Invalid: the other parameters do not fit what is to be called. The request waits on as it is.
        """
        if payload is not None:
            await self._require_fitting(approval_id, Answerer(by, through), payload)
        approval = await self._approvals.approve(
            by.tenant, approval_id, by, through=through, comment=comment, remember=remember, payload=payload
        )
        return await self._answered(approval)

    async def deny(
        self, approval_id: str, by: Principal, *, through: str | None = None, comment: str = ""
    ) -> dict[str, Any]:
        """Say no; whoever waits for the call is told. See `Approvals.deny`."""
        denied = await self._approvals.deny(by.tenant, approval_id, by, through=through, comment=comment)
        return await self._answered(denied)

    async def come_back(self, plugin: str) -> None:
        """A plugin is there: know again what of it waits for a person."""
        await self._resumption.come_back(plugin)

    async def cancel(self, live: LiveCall) -> None:
        """Ask for the end of a call, whether it runs or waits for a person."""
        await self._resumption.cancel(live)

    async def standing(
        self, tenant: str, *, revoked: bool = False, to: Principal | None = None
    ) -> list[dict[str, Any]]:
        """The standing approvals of a tenant as data, oldest first; those in force, or all; `to` as in `listed`."""
        found = await self._approvals.standing(tenant, revoked=revoked)
        return [shown_standing(one) for one in found if to is None or is_shown_standing(one, to)]

    async def revoke(self, standing_id: str, by: Principal, *, through: str | None = None) -> dict[str, Any]:
        """End a standing approval, and give what it was before: revoked already, or not. See `Approvals.revoke`.

        Raises:
            NotFound: there is none.
        """
        return shown_standing(await self._approvals.revoke(by.tenant, standing_id, by, through=through))

    async def _require_fitting(self, approval_id: str, answerer: Answerer, payload: Mapping[str, Any]) -> None:
        approval = await self._approvals.find(answerer.by.tenant, approval_id)
        if approval.state is State.PENDING:  # what else it is, is said when it is answered
            require_may_answer(approval, answerer)
            self._resumption.require_valid(approval, payload)

    async def _answered(self, approval: Approval) -> dict[str, Any]:
        await self._resumption.answered(approval)
        return await self.find(approval.binding.subject.tenant, approval.id)

    def _shown(self, approval: Approval, to: Principal | None = None) -> dict[str, Any]:
        told = shown(approval, self._resumption.target_of(approval))
        # What a rule keeps from whoever asks stands in its own words.
        return told if to is None or OPERATOR in to.roles else told | {"reason": approval.told}


def shown(approval: Approval, target: Target | None = None) -> dict[str, Any]:
    """A request as data, for people and programs. Without its token, which only whoever asked has.

    `target` is what would be called, for what that says of itself.
    """
    binding = approval.binding
    return {
        "id": approval.id,
        "kind": approval.kind.value,
        "state": approval.state.value,
        "call_id": approval.call,
        "preview": preview(approval, target),
        "effects": list(binding.subject.effects),
        "requester": binding.requester,
        "for_person": approval.for_person,
        "editors": list(binding.editors),
        "approvers": list(binding.approvers),
        "quorum": binding.quorum,
        "four_eyes": binding.four_eyes,
        "remember": approval.remember,
        "reason": approval.reason,
        "policies": list(binding.subject.policies),
        "policy_version": approval.policy_version,
        "digest": binding.subject.digest,
        "binding": approval.binding_hash,
        "created_at": approval.created_at,
        "expires_at": binding.expires_at,
        "ended_at": approval.ended_at,
        "ended_why": approval.ended_why,
        "replaces": approval.replaces,
        "answers": [
            {
                "by": answer.by,
                "operator": answer.operator,
                "approved": answer.approved,
                "at": answer.at,
                "comment": answer.comment,
                "scope": answer.scope,
                "reach": answer.reach,
            }
            for answer in approval.answers
        ],
    }


def _may_answer(approval: Approval, by: Principal) -> bool:
    try:
        require_may_answer(approval, Answerer(by))
    except (Conflict, Denied):
        return False
    return True


def _without_params(request: dict[str, Any]) -> dict[str, Any]:
    return request | {"preview": {name: value for name, value in request["preview"].items() if name != "params"}}


def shown_standing(standing: Standing) -> dict[str, Any]:
    """A standing approval as data."""
    return {
        "id": standing.id,
        "holder": standing.holder,
        "plugin": standing.plugin,
        "callable": standing.callable,
        "reach": "plugin" if standing.callable is None else "tool",
        "scope": "always" if standing.session is None else "session",
        "session": standing.session,
        "digest": standing.digest,
        "policies": list(standing.policies),
        "given_by": standing.given_by,
        "operator": standing.operator,
        "given_at": standing.given_at,
        "approval": standing.approval,
        "revoked_at": standing.revoked_at,
        "revoked_by": standing.revoked_by,
    }
