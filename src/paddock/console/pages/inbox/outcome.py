"""The outcome of an answered request: the state of its call, shown live where the answer was given."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from msgspec import Struct

from paddock.console.pages.inbox.tool_inputs import tool_titles
from paddock.console.templates import HtmlFragment, StreamEnd, render_fragment
from paddock.console.text.call_text import ResultPreview, call_status_text, preview_result
from paddock.console.text.inbox_text import inputs_glance
from paddock.core.call import OPERATOR, CallContext
from paddock.core.errors import NotFound
from paddock.gate.calls.handle import CallHandle
from paddock.host.calls.approvals import ApprovalSummaryJson
from paddock.host.host import Host
from paddock.web.request_context import is_owner

_ENDED = frozenset({"succeeded", "failed", "in_doubt", "cancelled"})


class OutcomeView(Struct, frozen=True):
    """The outcome of an answered request.

    Attributes:
        words: The state of its call.
        status: The same, for its color; empty if nothing is known but the request's own state.
        glance: Its first input, shortened.
        result: A preview of the result, if the reader may see it.
        visible: Whether the reader may open the call.
        answered: Whether the reader answered or edited it already, so that it waits for others.
    """

    approval: ApprovalSummaryJson
    words: str
    status: str
    glance: str
    result: ResultPreview | None
    visible: bool
    answered: bool

    @property
    def over(self) -> bool:
        return self.status in _ENDED or self.approval["state"] not in ("pending", "approved", "consumed")


def outcome_of(host: Host, approval: ApprovalSummaryJson, context: CallContext) -> OutcomeView:
    """Return the outcome of a request, as far as this reader may see it."""
    call = find_call(host, approval["call_id"], context)
    operates = OPERATOR in context.principal.roles
    own = context.principal.id in (approval["requester"], approval["for_person"])
    visible = operates or own or (call is not None and is_owner(context.principal, call.context.principal))
    answered = context.principal.id in (*approval["editors"], *(answer["by"] for answer in approval["answers"]))
    preview = approval["preview"]
    titles = tool_titles(host, context.tenant)(preview.get("plugin", ""), preview.get("callable", ""))
    glance = inputs_glance(preview.get("params"), titles)
    if call is None or approval["state"] not in ("approved", "consumed"):
        return OutcomeView(approval, "", "", glance, None, visible, answered)
    summary = call.to_json()
    words = call_status_text(summary["status"], summary.get("error", {}).get("code", ""))
    result = preview_result(summary["result"]) if visible and "result" in summary else None
    return OutcomeView(approval, words, summary["status"], glance, result, visible, answered)


async def own_outcome(host: Host, approval_id: str, context: CallContext) -> OutcomeView | None:
    """Return the outcome of a request that this reader answered or edited; None if they did neither.

    The id comes from an address: a forged link must not make a person believe that they answered a request.
    """
    try:
        outcome = outcome_of(
            host, await host.approvals.find(context.tenant, approval_id, to=context.principal), context
        )
    except NotFound:
        return None
    return outcome if outcome.answered else None


def find_call(host: Host, call_id: str, context: CallContext) -> CallHandle | None:
    """Return a call that this daemon made; None if it was made before its start."""
    try:
        return host.calls.registry.find(call_id, context.tenant)
    except NotFound:
        return None


async def outcome_fragments(
    host: Host, approval_id: str, context: CallContext
) -> AsyncGenerator[HtmlFragment | StreamEnd, None]:
    """Yield the outcome of a request whenever it changes, until its call has ended."""
    last: HtmlFragment | None = None
    revision = -1
    while True:
        approval = await host.approvals.find(context.tenant, approval_id, to=context.principal)
        call = await host.calls.waiting.get(approval["call_id"], context.tenant, ended=False)
        if call is not None:
            revision = await call.wait_changed(revision)
            approval = await host.approvals.find(context.tenant, approval_id, to=context.principal)
        outcome = outcome_of(host, approval, context)
        current = render_fragment("inbox/approval_outcome.html", {"outcome": outcome})
        if current != last:
            last = current
            yield current
        if call is None or outcome.over:
            yield StreamEnd()
            return
