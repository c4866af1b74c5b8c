"""Approvals for MCP calls: elicited through the client where that is sound, and remembered for repeated calls.

A confirmation is asked of the person whose call it is, through any channel. Approvals by somebody else are never
elicited: a client could answer by itself. Such a call returns where to answer.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from paddock.approvals.answer import RememberChoice
from paddock.core.canonical import hash_of
from paddock.core.elicitation import Question, QuestionAnswer
from paddock.core.errors import Conflict, Denied, NeedsApproval
from paddock.gate.calls.handle import CallHandle
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.mcp_server.approval_text import SCOPE_FIELD, approval_link, pending_text, question_schema, question_text
from paddock.mcp_server.exchange import McpExchange, RequestOwner, request_owner
from paddock.mcp_server.results import fault_from_error, tool_pending
from paddock.rpc.errors import RpcError
from paddock.web.daemon_address import ConsoleAddress

MAX_PENDING_TOKENS: Final = 10_000
_CONFIRMATION: Final = "confirmation"
_PERSON_KINDS: Final = ("person", "local")


class AnsweredCall(NamedTuple):
    """A call whose request was answered, and the answer as data for the client; empty if it was not approved."""

    call: CallHandle
    approval: Mapping[str, Any]


class ApprovalElicitation:
    """Asks the person behind a client to confirm a call, and remembers pending calls.

    Args:
        host: Records the answers.
        find_console: Returns where the console is; may block.
    """

    def __init__(self, host: Host, find_console: Callable[[], ConsoleAddress]) -> None:
        self._host = host
        self._find_console = find_console
        # Pending calls, for clients that repeat the same call: models do, and know nothing of tokens.
        self._tokens: OrderedDict[tuple[RequestOwner, str, str], str] = OrderedDict()
        self._pending_counts: dict[tuple[RequestOwner, str], int] = {}

    async def elicit_approval(self, exchange: McpExchange, pending: NeedsApproval) -> AnsweredCall | None:
        """Return the pending call once the person behind the client has answered; None if it stays pending.

        If it is answered elsewhere meanwhile, by a standing approval for instance, the question is withdrawn.

        Raises:
            PaddockError: the answer could not be recorded.
        """
        principal = exchange.context.principal
        question = Question(question_text(pending), schema=question_schema(pending))
        if (
            pending.details["kind"] != _CONFIRMATION
            or principal.kind not in _PERSON_KINDS
            or not exchange.can_elicit(question)
        ):
            return None
        approval_id, tenant = pending.details["approval"], exchange.context.tenant
        call = await self._host.calls.waiting.get(pending.details["call_id"], tenant)
        if call is None:
            return None
        answer = await _ask_while_held(exchange, question, call, approval_id)
        if answer is not None:
            if answer.action == "cancel":
                return None
            try:
                await self._record_answer(exchange, approval_id, answer)
            except Denied:
                return None  # not theirs to answer
            except Conflict:
                if call.approval_id == approval_id:
                    return None  # it was answered elsewhere, and the call does not go on here
        return AnsweredCall(call, await self._chosen_scope(tenant, approval_id))

    async def _record_answer(self, exchange: McpExchange, approval_id: str, answer: QuestionAnswer) -> None:
        approvals, principal = self._host.approvals, exchange.context.principal
        through = impersonating_operator(exchange.context)
        if answer.action == "accept":
            await approvals.approve(approval_id, principal, through=through, remember=_chosen(answer))
        else:
            await approvals.deny(approval_id, principal, through=through)

    async def _chosen_scope(self, tenant: str, approval_id: str) -> Mapping[str, Any]:
        record = await self._host.approvals.find(tenant, approval_id)
        given = next((answer for answer in record["answers"] if answer["approved"]), None)
        if given is None:
            return {}
        standing = record["standing"] or given["standing"]
        return {"approval": approval_id, "scope": given["scope"], "standing": standing}

    async def pending_result(self, exchange: McpExchange, pending: NeedsApproval) -> dict[str, Any]:
        """Return the result of a tool call that waits: who can answer, where, and how they sign in."""
        text, link = await self._describe_pending(exchange, pending)
        return tool_pending(pending, text, link, exchange.revision)

    async def pending_fault(self, exchange: McpExchange, pending: NeedsApproval) -> RpcError:
        """Return the same for a document or a prompt, whose result has no place for it."""
        text, link = await self._describe_pending(exchange, pending)
        fault = fault_from_error(pending)
        return RpcError(fault.code, text, {**fault.data, "link": link})

    async def _describe_pending(self, exchange: McpExchange, pending: NeedsApproval) -> tuple[str, str | None]:
        console = await asyncio.to_thread(self._find_console)
        has_provider = self._host.settings.oidc.issuer is not None
        text = pending_text(pending, console, exchange.context.tenant, identity_provider=has_provider)
        return text, approval_link(console, pending.details["approval"])

    def remember_pending(
        self, exchange: McpExchange, name: str, params: Mapping[str, Any], pending: NeedsApproval
    ) -> None:
        """Remember the token of a pending call, in case it is repeated."""
        token = pending.details.get("token")
        if not isinstance(token, str):
            return
        owner = request_owner(exchange.context)
        key = (owner, name, hash_of(params))
        if key not in self._tokens:
            self._pending_counts[owner, name] = self._pending_counts.get((owner, name), 0) + 1
        self._tokens[key] = token
        while len(self._tokens) > MAX_PENDING_TOKENS:
            self._drop_token(next(iter(self._tokens)))

    def pending_token(self, exchange: McpExchange, name: str, params: Mapping[str, Any]) -> str | None:
        """Return the token of the same call made earlier, if it is or was pending."""
        if not self._pending_counts:
            return None
        owner = request_owner(exchange.context)
        if (owner, name) not in self._pending_counts:
            return None
        return self._tokens.get((owner, name, hash_of(params)))

    def forget_pending(self, exchange: McpExchange, name: str, params: Mapping[str, Any]) -> None:
        """Forget a call that is no longer pending."""
        key = (request_owner(exchange.context), name, hash_of(params))
        if key in self._tokens:
            self._drop_token(key)

    def _drop_token(self, key: tuple[RequestOwner, str, str]) -> None:
        del self._tokens[key]
        owner_and_name = key[:2]
        self._pending_counts[owner_and_name] -= 1
        if not self._pending_counts[owner_and_name]:
            del self._pending_counts[owner_and_name]


async def _ask_while_held(
    exchange: McpExchange, question: Question, call: CallHandle, approval_id: str
) -> QuestionAnswer | None:
    """Ask the person behind the client; None as soon as the call no longer waits for this request."""
    asked = asyncio.ensure_future(exchange.ask_person("Paddock asks", question))
    released = asyncio.ensure_future(_wait_released(call, approval_id))
    try:
        await asyncio.wait((asked, released), return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        asked.cancel()
        released.cancel()
        await asyncio.gather(asked, released, return_exceptions=True)


async def _wait_released(call: CallHandle, approval_id: str) -> None:
    version = -1
    while call.approval_id == approval_id and not call.is_over:
        version = await call.wait_changed(version)


def _chosen(answer: QuestionAnswer) -> RememberChoice | None:
    """Return how long the approval is to last; None if the person did not choose."""
    match answer.content.get(SCOPE_FIELD):
        case None:
            return None
        case "always":
            return RememberChoice("always")
        case _:
            return RememberChoice("once")
