"""Answers that are given from the list: each item on its own binding, and one failure does not hide the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from paddock.approvals.answer import RememberChoice
from paddock.console.pages.inbox.tool_inputs import TitlesOf, tool_titles
from paddock.console.text.inbox_text import inputs_glance
from paddock.core.call import CallContext
from paddock.core.errors import CallerError, Conflict, PaddockError
from paddock.host.calls.approvals import ApprovalJson
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.host.inbox.item import InboxItem, InboxKind

MAX_AT_ONCE: Final = 100
_SCOPES: Final = {"approve": None, "approve_once": RememberChoice("once")}


class AnswerResult(Struct, frozen=True):
    """What an answer came to.

    Attributes:
        inputs: The beginning of its inputs, which tells it from others of the same tool.
        approval: The request as it is then; None if it was not answered.
        error: Why it was not answered.
    """

    item_id: str
    title: str
    answer: str
    inputs: str = ""
    approval: ApprovalJson | None = None
    error: PaddockError | None = None


async def answer_items(host: Host, context: CallContext, chosen: Sequence[str], answer: str) -> list[AnswerResult]:
    """Answer each chosen item, given as `<id> <binding>`: the binding that was on screen.

    Raises:
        CallerError: nothing was chosen, too much was, or no rule asked for all of it.
    """
    if not chosen or len(chosen) > MAX_AT_ONCE:
        raise CallerError(
            "no request is ticked" if not chosen else f"no more than {MAX_AT_ONCE} can be answered at once",
            code="inbox.selection",
            hint="open the requests of one rule and tick those to answer",
        )
    found: list[tuple[str, str, InboxItem | PaddockError]] = []
    for text in dict.fromkeys(chosen):
        item_id, _, binding = text.partition(" ")
        try:
            found.append((item_id, binding, await host.inbox.find(context.principal, item_id)))
        except PaddockError as error:
            found.append((item_id, binding, error))
    _require_common_rule([item for _, _, item in found if isinstance(item, InboxItem)])
    titles_of = tool_titles(host, context.tenant)
    return [
        await _answer_one(host, context, item_id, binding, item, answer, titles_of) for item_id, binding, item in found
    ]


def _require_common_rule(items: Sequence[InboxItem]) -> None:
    """Require that one rule asked for all items, if there are several.

    Raises:
        CallerError: there is none.
    """
    if len(items) > 1 and not any(all(rule in item.rules for item in items) for rule in items[0].rules):
        raise CallerError(
            "the ticked requests were asked by different rules",
            code="inbox.selection",
            hint="answer those of one rule at a time",
        )


async def _answer_one(
    host: Host,
    context: CallContext,
    item_id: str,
    binding: str,
    item: InboxItem | PaddockError,
    answer: str,
    titles_of: TitlesOf,
) -> AnswerResult:
    if not isinstance(item, InboxItem):
        return await _unanswered(host, context, AnswerResult(item_id, item_id, answer, error=item), titles_of)
    inputs = inputs_glance(item.inputs, titles_of(item.plugin, item.callable))
    try:
        _require_choice(item, binding, answer)
        through, by = impersonating_operator(context), context.principal
        if answer == "deny":
            approval = await host.approvals.deny(item.id, by, through=through)
        else:
            approval = await host.approvals.approve(item.id, by, through=through, remember=_SCOPES[answer])
    except PaddockError as error:
        return AnswerResult(item.id, item.title, answer, inputs, error=error)
    return AnswerResult(item.id, item.title, answer, inputs, approval)


async def _unanswered(host: Host, context: CallContext, result: AnswerResult, titles_of: TitlesOf) -> AnswerResult:
    """Return a result with the words for a request that is in the inbox no more, as far as this reader may see it."""
    try:
        preview = (await host.approvals.find(context.tenant, result.item_id, to=context.principal))["preview"]
    except PaddockError:
        return result
    title = f"{preview['plugin']} · {preview['callable']}"
    titles = titles_of(preview["plugin"], preview["callable"])
    return replace(result, title=title, inputs=inputs_glance(preview.get("params"), titles))


def _require_choice(item: InboxItem, binding: str, answer: str) -> None:
    """Require that this answer may be given from the list, to what was on screen.

    Raises:
        Conflict: the item is another one now, or has to be opened first.
    """
    if item.kind not in (InboxKind.APPROVAL, InboxKind.CONSENT) or answer not in (
        choice.answer for choice in item.choices
    ):
        raise Conflict("it cannot be answered from the list", code="inbox.open_first", hint=f"open {item.link}")
    if binding != item.binding:
        raise Conflict("it has changed meanwhile", code="approval.changed", hint="look at it again")


def answer_message(result: AnswerResult) -> str:
    """Return the code of the message after a single answer."""
    approval = result.approval
    if result.answer == "deny" or approval is None:
        return "denied"
    if approval["state"] == "pending":
        return "approval_counted"
    if approval["remember"] == "never":
        return "approved"
    return "approved_once" if approval["answers"][-1]["scope"] == "once" else "approved_lasting"
