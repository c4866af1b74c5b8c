"""Approval requests as callers see them: list, answer, cancel, and the standing approvals that result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypedDict

from paddock.approvals.access import Answerer, can_see, can_see_standing, require_may_answer
from paddock.approvals.answer import RememberChoice
from paddock.approvals.model import (
    Approval,
    ApprovalReach,
    ApprovalRequestKind,
    ApprovalScope,
    ApprovalState,
)
from paddock.approvals.service import Approvals
from paddock.approvals.standing_approval import StandingApproval
from paddock.approvals.store import request_not_found
from paddock.core.call import OPERATOR, Principal
from paddock.core.errors import Conflict, Denied, PaddockError
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.gate.calls.handle import CallHandle
from paddock.gate.calls.resume import PendingCallResumer
from paddock.gate.catalogue.call_target import CallTarget
from paddock.gate.effects.approval_preview import ApprovalPreviewJson, approval_preview
from paddock.principals.caller_text import caller_text
from paddock.principals.display_name_cache import DisplayNameCache

DEFAULT_PAGE_SIZE = 100  # requests per page
MAX_PAGE_SIZE = 1_000


class ApprovalAnswerJson(TypedDict):
    """One person's answer."""

    by: str
    operator: Annotated[str | None, "The operator who passed the answer on, if any."]
    approved: bool
    at: DateTime
    comment: str
    scope: ApprovalScope
    reach: ApprovalReach
    standing: Annotated[str | None, "The standing approval that answered it, if it waited when that was given."]


class ApprovalSummaryJson(TypedDict):
    """A request for approval by a person."""

    id: str
    kind: ApprovalRequestKind
    state: ApprovalState
    call_id: str
    preview: ApprovalPreviewJson
    effects: list[str]
    requester: str
    requester_name: Annotated[str, "The name to show for it: a key by its owner and label; empty if it was erased."]
    for_person: Annotated[str, "The person the call is for; empty if there is none."]
    session: Annotated[str | None, "The agent session that the call belongs to, if any."]
    editors: list[str]
    approvers: list[str]
    quorum: NonNegativeInt
    four_eyes: bool
    remember: Annotated[
        str, "How far an approval may be remembered: `never`, `tool` or `plugin`; `never` for all but confirmations."
    ]
    reason: str
    policies: list[str]
    policy_version: str
    digest: str
    binding: str
    created_at: DateTime
    expires_at: DateTime
    ended_at: DateTime | None
    ended_why: str
    replaces: str | None
    answers: list[ApprovalAnswerJson]


class CoveredRequestJson(TypedDict):
    """A request that a standing approval answered, because it waited when that was given."""

    id: str
    call_id: str


class ApprovalJson(ApprovalSummaryJson):
    """A request for approval by a person, with its consequences."""

    replaced_by: Annotated[str | None, "The request with edited parameters that replaced this one."]
    standing: Annotated[str | None, "The id of the standing approval that resulted from it."]
    also_approved: Annotated[
        list[CoveredRequestJson], "The requests that waited already, and that this standing approval answered too."
    ]


class StandingApprovalJson(TypedDict):
    """An approval that holds for more than one call."""

    id: str
    holder: str
    plugin: str
    callable: Annotated[str | None, "Null: every callable of the plugin."]
    reach: ApprovalReach
    scope: Literal["always", "session"]
    session: str | None
    digest: str
    policies: list[str]
    given_by: str
    operator: str | None
    given_at: DateTime
    approval: Annotated[str, "The request that created it."]
    revoked_at: DateTime | None
    revoked_by: str | None
    outdated: Annotated[bool, "Whether it covers nothing any more, since the plugin or the tool has changed."]


class ApprovalService:
    """Lists approval requests and takes answers. Every answer is attributed to a principal.

    Args:
        approvals: Stores the requests.
        resumer: Resumes the calls that wait for them.
        names: What requesters are called.
    """

    def __init__(self, approvals: Approvals, resumer: PendingCallResumer, names: DisplayNameCache) -> None:
        self._approvals = approvals
        self._resumer = resumer
        self._names = names

    async def list_requests(
        self,
        tenant: str,
        *,
        ended: bool = False,
        before: str | None = None,
        limit: int = DEFAULT_PAGE_SIZE,
        to: Principal | None = None,
        short_params: bool = False,
    ) -> list[ApprovalSummaryJson]:
        """List a tenant's requests as data, newest first; only open ones unless `ended`.

        Args:
            tenant: The tenant.
            ended: Include requests that ended.
            before: Only requests older than the one with this id.
            limit: Maximum number of requests.
            to: Only requests that this principal may see.
            short_params: Include the call parameters where they are short. Long ones are always left out: an approver
                opens the request itself.

        Raises:
            NotFound: there is no request with the id `before`.
        """
        page = await self._approvals.page(
            tenant, open_only=not ended, to=to, before=before, limit=limit, short_payloads=short_params
        )
        return self._summaries(page, to, await self._names.read(tenant), short_params=short_params)

    def _summaries(
        self,
        approvals: Iterable[Approval],
        to: Principal | None,
        names: Mapping[str, str],
        *,
        short_params: bool = False,
    ) -> list[ApprovalSummaryJson]:
        summaries = [self._to_json_for(request, to, names) for request in approvals]
        return summaries if short_params else [_without_params(summary) for summary in summaries]

    async def find(self, tenant: str, approval_id: str, *, to: Principal | None = None) -> ApprovalJson:
        """Return one request with its replacement and the standing approval that resulted from it.

        Raises:
            NotFound: there is none, or this principal may not see it.
        """
        request = await self._approvals.find(tenant, approval_id)
        if to is not None and not can_see(request, to):
            raise request_not_found(approval_id)
        standing = await self._approvals.find_standing_created_by(request)
        covered = [] if standing is None else await self._approvals.list_answered_by(tenant, standing)
        return {
            **self._to_json_for(request, to, await self._names.read(tenant)),
            "replaced_by": await self._approvals.find_replacement(request),
            "standing": standing,
            "also_approved": [{"id": approval.id, "call_id": approval.call} for approval in covered],
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
    ) -> ApprovalJson:
        """Approve a request; the call is made once the quorum is reached. See `Approvals.approve`.

        Raises:
            Invalid: the edited parameters do not match the callable's schema. The request stays open, unchanged.
        """
        if payload is not None:
            await self._validate_edited_params(approval_id, Answerer(by, through), payload)
        approval = await self._approvals.approve(
            by.tenant, approval_id, by, through=through, comment=comment, remember=remember, payload=payload
        )
        try:
            return await self._apply_answer(approval)
        finally:
            await self._resume_covered(approval)

    async def deny(
        self, approval_id: str, by: Principal, *, through: str | None = None, comment: str = ""
    ) -> ApprovalJson:
        """Deny a request; callers waiting for it are notified. See `Approvals.deny`."""
        denied = await self._approvals.deny(by.tenant, approval_id, by, through=through, comment=comment)
        return await self._apply_answer(denied)

    async def resume_approved_calls(self, plugin: str) -> None:
        """Make the calls of a newly available plugin that were approved before."""
        await self._resumer.resume_unused(plugin)

    async def cancel(self, call: CallHandle) -> None:
        """Cancel a call, whether it runs or waits for approval."""
        await self._resumer.cancel(call)

    async def list_standing(
        self, tenant: str, *, revoked: bool = False, to: Principal | None = None
    ) -> list[StandingApprovalJson]:
        """List a tenant's standing approvals, oldest first: those in force, or also `revoked` ones visible to `to`."""
        standing = await self._approvals.list_standing(tenant, revoked=revoked)
        return [self._standing_to_json(each) for each in standing if to is None or can_see_standing(each, to)]

    async def revoke_standing(
        self, standing_id: str, by: Principal, *, through: str | None = None
    ) -> StandingApprovalJson:
        """Revoke a standing approval and return its previous state: revoked already, or not. See `Approvals.revoke`.

        Raises:
            NotFound: there is none.
        """
        return self._standing_to_json(await self._approvals.revoke(by.tenant, standing_id, by, through=through))

    def _standing_to_json(self, standing: StandingApproval) -> StandingApprovalJson:
        return standing_to_json(standing, outdated=self._resumer.is_outdated(standing))

    async def refusal(self, approval_id: str, principal: Principal) -> PaddockError | None:
        """Return the reason why an answer of this principal would not count; None if it would."""
        approval = await self._approvals.find(principal.tenant, approval_id)
        try:
            require_may_answer(approval, Answerer(principal))
        except (Conflict, Denied) as refusal:
            return refusal
        return None

    async def _validate_edited_params(self, approval_id: str, answerer: Answerer, payload: Mapping[str, Any]) -> None:
        approval = await self._approvals.find(answerer.by.tenant, approval_id)
        if approval.state is ApprovalState.PENDING:  # other states are reported when the answer is recorded
            require_may_answer(approval, answerer)
            self._resumer.require_valid(approval, payload)

    async def _apply_answer(self, approval: Approval) -> ApprovalJson:
        await self._resumer.on_answered(approval)
        return await self.find(approval.binding.subject.tenant, approval.id)

    async def _resume_covered(self, approval: Approval) -> None:
        """Resume the calls whose requests were approved along with this one, by its standing approval."""
        if all(answer.scope == "once" for answer in approval.answers):
            return
        standing = await self._approvals.find_standing_created_by(approval)
        if standing is not None:
            covered = await self._approvals.list_answered_by(approval.binding.subject.tenant, standing)
            await self._resumer.resume_approved(covered)

    def _to_json_for(self, approval: Approval, to: Principal | None, names: Mapping[str, str]) -> ApprovalSummaryJson:
        record = approval_to_json(approval, self._resumer.unchanged_target(approval), names)
        if to is not None and OPERATOR not in to.roles:  # a rule may withhold its reason from the requester
            record["reason"] = record["preview"]["reason"] = approval.caller_reason
            if approval.public_reason:
                record["policies"] = []  # the name of a rule may tell it too
        return record


def approval_to_json(
    approval: Approval, target: CallTarget | None = None, names: Mapping[str, str] | None = None
) -> ApprovalSummaryJson:
    """Serialize a request, without its token, which only the requester has.

    Args:
        approval: The request.
        target: The callable, for its description of itself.
        names: What people and API keys are called, by principal.
    """
    binding = approval.binding
    name = caller_text(binding.requester, approval.for_person, names or {}) if binding.requester else ""
    return {
        "id": approval.id,
        "kind": approval.kind,
        "state": approval.state,
        "call_id": approval.call,
        "preview": approval_preview(approval, target),
        "effects": list(binding.subject.effects),
        "requester": binding.requester,
        "requester_name": name,
        "for_person": approval.for_person,
        "session": approval.context.get("session"),
        "editors": list(binding.editors),
        "approvers": list(binding.approvers),
        "quorum": binding.quorum,
        "four_eyes": binding.four_eyes,
        "remember": approval.remember_limit,
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
                "standing": answer.standing,
            }
            for answer in approval.answers
        ],
    }


def _without_params(request: ApprovalSummaryJson) -> ApprovalSummaryJson:
    request["preview"].pop("params", None)
    return request


def standing_to_json(standing: StandingApproval, *, outdated: bool) -> StandingApprovalJson:
    """Serialize a standing approval."""
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
        "outdated": outdated,
    }
