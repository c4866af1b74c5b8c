"""Trying the rules on a call that nobody makes. It changes nothing, so the question stands in the address."""

from __future__ import annotations

from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from paddock.core.errors import PaddockError
from paddock.host.host import Host
from paddock.host.policy_reading import Cast
from paddock.host.supposing import ANYBODY_WITH, Answered, Supposed
from paddock.http.acting import context_of
from paddock.http.console.page import Page, page
from paddock.http.endpoint import LONGEST_NAME, OPERATOR
from paddock.manifest.effects import IN_WORDS, Effect

_MOST_WORDS = 50
_OFFERED = 200  # people to choose from, and as many keys


class PolicyTryPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def rows(self) -> list[Page]:
        return [Page("GET", "/policy/try", self.tried, OPERATOR)]

    async def tried(self, request: Request) -> Response:
        by = (await context_of(self._host, request)).principal
        asked = supposed_in(request)
        answered: Answered | None = None
        wrong: PaddockError | None = None
        if asked.who and asked.what:
            try:
                answered = await self._host.policy.suppose(by, asked)
            except PaddockError as error:
                wrong = error
        everybody = await self._host.policy.cast(by.tenant)
        cast = replace(everybody, people=everybody.people[:_OFFERED], keys=everybody.keys[:_OFFERED])
        values = {
            "cast": cast,
            # Of very many people some are offered, and the others are typed.
            "left_out": cast != everybody,
            "unlisted": "" if asked.who in offered(cast, by.id) else asked.who,
            "effects": {str(effect): IN_WORDS[effect] for effect in Effect},
            "asked": asked,
            "started": "who" in request.query_params,
            "answered": answered,
            "wrong": wrong,
            "myself": by.id,
        }
        return page(request, "policy_try.html", values, 422 if wrong else 200)


def offered(cast: Cast, myself: str) -> set[str]:
    """Everybody who can be chosen, as an address names them."""
    roles, agents = (f"{ANYBODY_WITH}{one}" for one in cast.roles), (f"agent:{one}" for one in cast.agents)
    return {myself, *roles, *agents, *(one.id for one in cast.people), *(f"key:{one.id}" for one in cast.keys)}


def supposed_in(request: Request) -> Supposed:
    """The call that an address asks about."""
    given = request.query_params

    def one(name: str) -> str:
        return given.get(name, "").strip()[:LONGEST_NAME]

    def several(name: str) -> tuple[str, ...]:
        return tuple(text[:LONGEST_NAME] for text in given.getlist(name)[:_MOST_WORDS] if text)

    return Supposed(
        one("somebody") or one("who"),
        one("other") or one("what"),
        roles=several("role"),
        effects=several("effect"),
        consented="consented" in given,
        whitelisted="whitelisted" in given,
        background="background" in given,
    )
