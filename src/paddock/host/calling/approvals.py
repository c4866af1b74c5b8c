"""People in the loop: what waits for them, and what happens when they answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from paddock.approvals.access import Answerer, can_see, can_see_standing, require_may_answer
from paddock.approvals.answer import RememberChoice
from paddock.approvals.model import OPEN_STATES, Approval, ApprovalState
from paddock.approvals.service import Approvals
from paddock.approvals.standing import StandingApproval
from paddock.approvals.store import request_not_found
from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict, Denied
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.resume import PendingCallResumer
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.gate.effects.context import approval_preview

DEFAULT_PAGE_SIZE = 100  # requests in a page, where nobody says how many
MAX_PAGE_SIZE = 1_000


class ApprovalService:
    """Requests that wait for a person, for whoever shows them and takes answers. Every answer is from somebody.

    Args:
        approvals: Where they are kept.
        resumption: Goes on with the calls that they are about.
    """

    def __init__(self, approvals: Approvals, resumption: PendingCallResumer) -> None:
        self._approvals = approvals
        self._resumption = resumption

    async def list_requests(
        self,
        tenant: str,
        *,
        ended: bool = False,
        before: str | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
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
        states = () if ended else tuple(sorted(OPEN_STATES))
        found: list[Approval] = []
        while len(found) < limit:
            page = await self._approvals.page(tenant, states, before=before, limit=limit)
            found += [one for one in page if to is None or can_see(one, to)]
            if len(page) < limit:
                break
            before = page[-1].id
        return self._summaries(found[:limit], to)

    def _summaries(self, approvals: Iterable[Approval], to: Principal | None) -> list[dict[str, Any]]:
        return [_without_params(self._to_json_for(one, to)) for one in approvals]

    async def pending(self, by: Principal, *, limit: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """What waits, as `listed` shows it: for the answer of this one, and of what else they may know, for others'."""
        theirs: list[Approval] = []
        others: list[Approval] = []
        before: str | None = None
        while len(theirs) < limit:
            page = await self._approvals.page(
                by.tenant, (ApprovalState.PENDING,), before=before, limit=DEFAULT_PAGE_SIZE
            )
            for one in page:
                if can_see(one, by):
                    (theirs if _may_answer(one, by) else others).append(one)
            if len(page) < DEFAULT_PAGE_SIZE:
                break
            before = page[-1].id
        return self._summaries(theirs[:limit], by), self._summaries(others[:limit], by)

    async def find(self, tenant: str, approval_id: str, *, to: Principal | None = None) -> dict[str, Any]:
        """One request as data, with what took its place and the standing approval that came out of it.

        Raises:
            NotFound: there is none, or not for this one to know of.
        """
        found = await self._approvals.find(tenant, approval_id)
        if to is not None and not can_see(found, to):
            raise request_not_found(approval_id)
        return self._to_json_for(found, to) | {
            "replaced_by": await self._approvals.find_replacement(found),
            "standing": await self._approvals.find_standing_created_by(found),
        }

    async def approve(
        self,
        approval_id: str,
        by: Principal,
        *,
        through: str | None = None,
        comment: str = "",
        remember: RememberChoice | None = None,
        payload: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Say yes; the call is made as soon as enough people did. See `Approvals.approve`.

        Raises:
            Invalid: the other parameters do not fit what is to be called. The request waits on as it is.
        """
        if payload is not None:
            await self._validate_edited_params(approval_id, Answerer(by, through), payload)
        approval = await self._approvals.approve(
            by.tenant, approval_id, by, through=through, comment=comment, remember=remember, payload=payload
        )
        return await self._apply_answer(approval)

    async def deny(
        self, approval_id: str, by: Principal, *, through: str | None = None, comment: str = ""
    ) -> dict[str, Any]:
        """Say no; whoever waits for the call is told. See `Approvals.deny`."""
        denied = await self._approvals.deny(by.tenant, approval_id, by, through=through, comment=comment)
        return await self._apply_answer(denied)

    async def restore_waiting_calls(self, plugin: str) -> None:
        """A plugin is there: know again what of it waits for a person."""
        await self._resumption.restore_open(plugin)

    async def cancel(self, live: CallHandle) -> None:
        """Ask for the end of a call, whether it runs or waits for a person."""
        await self._resumption.cancel(live)

    async def list_standing(
        self, tenant: str, *, revoked: bool = False, to: Principal | None = None
    ) -> list[dict[str, Any]]:
        """The standing approvals of a tenant as data, oldest first; those in force, or all; `to` as in `listed`."""
        found = await self._approvals.list_standing(tenant, revoked=revoked)
        return [standing_to_json(one) for one in found if to is None or can_see_standing(one, to)]

    async def revoke_standing(self, standing_id: str, by: Principal, *, through: str | None = None) -> dict[str, Any]:
        """End a standing approval, and give what it was before: revoked already, or not. See `Approvals.revoke`.

        Raises:
            NotFound: there is none.
        """
        return standing_to_json(await self._approvals.revoke(by.tenant, standing_id, by, through=through))

    async def _validate_edited_params(self, approval_id: str, answerer: Answerer, payload: Mapping[str, Any]) -> None:
        approval = await self._approvals.find(answerer.by.tenant, approval_id)
        if approval.state is ApprovalState.PENDING:  # what else it is, is said when it is answered
            require_may_answer(approval, answerer)
            self._resumption.require_valid(approval, payload)

    async def _apply_answer(self, approval: Approval) -> dict[str, Any]:
        await self._resumption.on_answered(approval)
        return await self.find(approval.binding.subject.tenant, approval.id)

    def _to_json_for(self, approval: Approval, to: Principal | None = None) -> dict[str, Any]:
        told = approval_to_json(approval, self._resumption.unchanged_target(approval))
        # What a rule keeps from whoever asks stands in its own words.
        return told if to is None or OPERATOR in to.roles else told | {"reason": approval.caller_reason}


def approval_to_json(approval: Approval, target: CallTarget | None = None) -> dict[str, Any]:
    """A request as data, for people and programs. Without its token, which only whoever asked has.

    `target` is what would be called, for what that says of itself.
    """
    binding = approval.binding
    return {
        "id": approval.id,
        "kind": approval.kind.value,
        "state": approval.state.value,
        "call_id": approval.call,
        "preview": approval_preview(approval, target),
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


def standing_to_json(standing: StandingApproval) -> dict[str, Any]:
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
