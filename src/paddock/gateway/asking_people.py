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
from paddock.core.errors import Conflict, Denied, NeedsApproval
from paddock.core.ids import CallId
from paddock.core.printable import printable
from paddock.core.questions import Question
from paddock.gate.live_call import LiveCall
from paddock.gateway.exchange import Exchange
from paddock.gateway.owners import Owner, owner_of
from paddock.host.callers import passed_on_by
from paddock.host.host import Host

MOST_REMEMBERED: Final = 10_000
_CONFIRMATION: Final = "confirmation"
_PEOPLE: Final = ("person", "local")
_YES_OR_NO: Final[Mapping[str, Any]] = {"type": "object", "properties": {}}
_LONGEST_PARAMS: Final = 1_500


class AskingPeople:
    """Asks them.

    Args:
        host: Takes their answers.
        link: Where a request can be looked at and answered, by its id.
    """

    def __init__(self, host: Host, link: Callable[[str], str]) -> None:
        self._host = host
        self.link = link
        # What waits, for a client that makes the same call again: a model does, and knows nothing of tokens.
        self._tokens: OrderedDict[tuple[Owner, str, str], str] = OrderedDict()
        self._names: dict[tuple[Owner, str], int] = {}

    async def confirmed(self, exchange: Exchange, held: NeedsApproval) -> LiveCall | None:
        """The call that waited, once the person behind the client has answered; None where it waits on.

        Raises:
            PaddockError: the answer could not be taken.
        """
        principal = exchange.context.principal
        question = Question(_words(held), schema=_YES_OR_NO)
        if held.details["kind"] != _CONFIRMATION or principal.kind not in _PEOPLE or not exchange.can_ask(question):
            return None
        answer = await exchange.ask("Paddock asks", question)
        if answer.action == "cancel":
            return None
        approving, request, through = self._host.approving, held.details["approval"], passed_on_by(exchange.context)
        say = approving.approve if answer.action == "accept" else approving.deny
        try:
            await say(request, principal, through=through)
        except (Denied, Conflict):
            return None  # it is not theirs to answer, or somebody was quicker
        return self._host.calls.find(CallId(held.details["call_id"]), exchange.context.tenant)

    def remember(self, exchange: Exchange, name: str, params: Mapping[str, Any], held: NeedsApproval) -> None:
        """Know a call that waits, should it be made again."""
        token = held.details.get("token")
        if not isinstance(token, str):
            return
        owner = owner_of(exchange.context)
        key = (owner, name, hash_of(params))
        if key not in self._tokens:
            self._names[owner, name] = self._names.get((owner, name), 0) + 1
        self._tokens[key] = token
        while len(self._tokens) > MOST_REMEMBERED:
            self._forget(next(iter(self._tokens)))

    def token(self, exchange: Exchange, name: str, params: Mapping[str, Any]) -> str | None:
        """The token of a call that waits or waited, where this is the same call again."""
        if not self._names:
            return None
        owner = owner_of(exchange.context)
        if (owner, name) not in self._names:
            return None
        return self._tokens.get((owner, name, hash_of(params)))

    def forget(self, exchange: Exchange, name: str, params: Mapping[str, Any]) -> None:
        """It does not wait any more."""
        key = (owner_of(exchange.context), name, hash_of(params))
        if key in self._tokens:
            self._forget(key)

    def _forget(self, key: tuple[Owner, str, str]) -> None:
        del self._tokens[key]
        named = key[:2]
        self._names[named] -= 1
        if not self._names[named]:
            del self._names[named]


def _words(held: NeedsApproval) -> str:
    """What the person is asked: what would be done, and with what."""
    preview: Mapping[str, Any] = held.details["preview"]
    does = "; ".join(preview["does"])
    params = printable(json.dumps(preview["params"], ensure_ascii=False), _LONGEST_PARAMS)
    return f"{held.message}. It {does}. With: {params}. Do you want this?"
