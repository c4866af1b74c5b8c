"""Calls that wait for a person: asked through the client where that may count, and found again by who made them.

A confirmation is asked of the person whose call it is, and they may say yes wherever we reach them. Whatever somebody
else has to allow is not asked for here: a client could say yes by itself. Such a call is answered with where to answer.
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
    """Asks them.

    Args:
        host: Takes their answers.
        link: Where a request can be looked at and answered, by its id.
    """

    def __init__(self, host: Host, link: Callable[[str], str]) -> None:
        self._host = host
        self.approval_url = link
        # What waits, for a client that makes the same call again: a model does, and knows nothing of tokens.
        self._tokens: OrderedDict[tuple[RequestOwner, str, str], str] = OrderedDict()
        self._names: dict[tuple[RequestOwner, str], int] = {}

    async def elicit_approval(self, exchange: McpExchange, held: NeedsApproval) -> CallHandle | None:
        """The call that waited, once the person behind the client has answered; None where it waits on.

        Raises:
            PaddockError: the answer could not be taken.
        """
        principal = exchange.context.principal
        question = Question(_question_text(held), schema=_EMPTY_FORM)
        if (
            held.details["kind"] != _CONFIRMATION
            or principal.kind not in _PERSON_KINDS
            or not exchange.can_elicit(question)
        ):
            return None
        answer = await exchange.ask_person("Paddock asks", question)
        if answer.action == "cancel":
            return None
        approving, request, through = (
            self._host.approvals,
            held.details["approval"],
            impersonating_operator(exchange.context),
        )
        say = approving.approve if answer.action == "accept" else approving.deny
        try:
            await say(request, principal, through=through)
        except (Denied, Conflict):
            return None  # it is not theirs to answer, or somebody was quicker
        return self._host.calls.find(CallId(held.details["call_id"]), exchange.context.tenant)

    def remember_pending(
        self, exchange: McpExchange, name: str, params: Mapping[str, Any], held: NeedsApproval
    ) -> None:
        """Know a call that waits, should it be made again."""
        token = held.details.get("token")
        if not isinstance(token, str):
            return
        owner = request_owner(exchange.context)
        key = (owner, name, hash_of(params))
        if key not in self._tokens:
            self._names[owner, name] = self._names.get((owner, name), 0) + 1
        self._tokens[key] = token
        while len(self._tokens) > MAX_PENDING_TOKENS:
            self._drop_token(next(iter(self._tokens)))

    def pending_token(self, exchange: McpExchange, name: str, params: Mapping[str, Any]) -> str | None:
        """The token of a call that waits or waited, where this is the same call again."""
        if not self._names:
            return None
        owner = request_owner(exchange.context)
        if (owner, name) not in self._names:
            return None
        return self._tokens.get((owner, name, hash_of(params)))

    def forget_pending(self, exchange: McpExchange, name: str, params: Mapping[str, Any]) -> None:
        """It does not wait any more."""
        key = (request_owner(exchange.context), name, hash_of(params))
        if key in self._tokens:
            self._drop_token(key)

    def _drop_token(self, key: tuple[RequestOwner, str, str]) -> None:
        del self._tokens[key]
        named = key[:2]
        self._names[named] -= 1
        if not self._names[named]:
            del self._names[named]


def _question_text(held: NeedsApproval) -> str:
    """What the person is asked: what would be done, and with what."""
    preview: Mapping[str, Any] = held.details["preview"]
    does = "; ".join(preview["does"])
    params = printable(json.dumps(preview["params"], ensure_ascii=False), _MAX_PARAMS_CHARS)
    return f"{held.message}. It {does}. With: {params}. Do you want this?"
