"""Approvals for MCP calls: elicited through the client where that is sound, and remembered for repeated calls.

A confirmation is asked of the person whose call it is, through any channel. Approvals by somebody else are never
elicited: a client could answer by itself. Such a call returns where to answer.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from paddock.core.canonical import hash_of
from paddock.core.elicitation import Question
from paddock.core.errors import Conflict, Denied, NeedsApproval
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.gate.calls.handle import CallHandle
from paddock.host.host import Host
from paddock.host.identity.caller import impersonating_operator
from paddock.mcp_server.exchange import McpExchange, RequestOwner, request_owner

MAX_PENDING_TOKENS: Final = 10_000
_CONFIRMATION: Final = "confirmation"
_PERSON_KINDS: Final = ("person", "local")
_EMPTY_FORM: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
_MAX_PARAMS_CHARS: Final = 1_500


class ApprovalElicitation:
    """Asks the person behind a client to confirm a call, and remembers pending calls.

    Args:
        host: Records the answers.
        approval_url: Returns the URL of an approval request, by its id.
    """

    def __init__(self, host: Host, approval_url: Callable[[str], str]) -> None:
        self._host = host
        self.approval_url = approval_url
        # Pending calls, for clients that repeat the same call: models do, and know nothing of tokens.
        self._tokens: OrderedDict[tuple[RequestOwner, str, str], str] = OrderedDict()
        self._pending_counts: dict[tuple[RequestOwner, str], int] = {}

    async def elicit_approval(self, exchange: McpExchange, pending: NeedsApproval) -> CallHandle | None:
        """Return the pending call once the person behind the client has answered; None if it stays pending.

        Raises:
            PaddockError: the answer could not be recorded.
        """
        principal = exchange.context.principal
        question = Question(_question_text(pending), schema=_EMPTY_FORM)
        if (
            pending.details["kind"] != _CONFIRMATION
            or principal.kind not in _PERSON_KINDS
            or not exchange.can_elicit(question)
        ):
            return None
        answer = await exchange.ask_person("Paddock asks", question)
        if answer.action == "cancel":
            return None
        approvals, approval_id, through = (
            self._host.approvals,
            pending.details["approval"],
            impersonating_operator(exchange.context),
        )
        record_answer = approvals.approve if answer.action == "accept" else approvals.deny
        try:
            await record_answer(approval_id, principal, through=through)
        except (Denied, Conflict):
            return None  # not theirs to answer, or already answered
        return self._host.calls.registry.find(CallId(pending.details["call_id"]), exchange.context.tenant)

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


def _question_text(pending: NeedsApproval) -> str:
    """Return the question for the person: what would be done, and with which parameters."""
    preview: Mapping[str, Any] = pending.details["preview"]
    effects = "; ".join(preview["does"])
    params = printable(json.dumps(preview["params"], ensure_ascii=False), _MAX_PARAMS_CHARS)
    return f"{pending.message}. It {effects}. With: {params}. Do you want this?"
