"""Trying the rules on a call that nobody makes. It changes nothing, so the question stands in the address."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.page import Page, render_page
from paddock.core.errors import NotFound, PaddockError
from paddock.host.explain.explain_service import explanations_to_json
from paddock.host.host import Host
from paddock.host.policy.hypothetical_call import ROLE_PREFIX, HypotheticalCall, HypotheticalDecision
from paddock.host.policy.policy_service import PolicyTryOptions
from paddock.manifest.effects import EFFECT_TEXT, Effect
from paddock.web.request_context import call_context
from paddock.web.routing.route import MAX_NAME_CHARS, OPERATOR, path_param

_MAX_VALUES = 50
_MAX_OFFERED_CALLERS = 200  # people to choose from, and as many keys


class PolicySimulationPages:
    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("GET", "/policy/try", self.simulate, OPERATOR)]

    async def simulate(self, request: Request) -> Response:
        by = (await call_context(self._host, request)).principal
        asked = parse_hypothetical_call(request)
        answered: HypotheticalDecision | None = None
        wrong: PaddockError | None = None
        if asked.who and asked.what:
            try:
                answered = await self._host.policy.try_call(by, asked)
            except PaddockError as error:
                wrong = error
        everybody = await self._host.policy.try_options(by.tenant)
        cast = replace(
            everybody, people=everybody.people[:_MAX_OFFERED_CALLERS], keys=everybody.keys[:_MAX_OFFERED_CALLERS]
        )
        values = {
            "cast": cast,
            # Of very many people some are offered, and the others are typed.
            "left_out": cast != everybody,
            "unlisted": "" if asked.who in offered_callers(cast, by.id) else asked.who,
            "effects": {str(effect): EFFECT_TEXT[effect] for effect in Effect},
            "asked": asked,
            "started": "who" in request.query_params,
            "answered": answered,
            "wrong": wrong,
            "myself": by.id,
        }
        return render_page(request, "policy_try.html", values, 422 if wrong else 200)


def offered_callers(cast: PolicyTryOptions, myself: str) -> set[str]:
    """Everybody who can be chosen, as an address names them."""
    roles, agents = (f"{ROLE_PREFIX}{one}" for one in cast.roles), (f"agent:{one}" for one in cast.agents)
    return {myself, *roles, *agents, *(one.id for one in cast.people), *(f"key:{one.id}" for one in cast.keys)}


def parse_hypothetical_call(request: Request) -> HypotheticalCall:
    """The call that an address asks about."""
    given = request.query_params

    def one(name: str) -> str:
        return given.get(name, "").strip()[:MAX_NAME_CHARS]

    def several(name: str) -> tuple[str, ...]:
        return tuple(text[:MAX_NAME_CHARS] for text in given.getlist(name)[:_MAX_VALUES] if text)

    return HypotheticalCall(
        one("somebody") or one("who"),
        one("other") or one("what"),
        roles=several("role"),
        effects=several("effect"),
        consented="consented" in given,
        whitelisted="whitelisted" in given,
        background="background" in given,
    )


class ExplainPages:
    """For everybody: members are told of their own calls, and without what a rule keeps from people."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("GET", "/explain", self.show_form), Page("GET", "/explain/{id}", self.show)]

    async def show_form(self, request: Request) -> Response:
        wanted = request.query_params.get("id", "").strip()[:MAX_NAME_CHARS]
        if wanted:
            return RedirectResponse(f"/explain/{quote(wanted, safe='')}", 303)
        return self._render(request, "")

    async def show(self, request: Request) -> Response:
        context, wanted = await call_context(self._host, request), path_param(request, "id").strip()
        try:
            found = await self._host.explain_service.explain(wanted, context.principal)
        except NotFound:
            return self._render(request, wanted, status=404)
        return self._render(request, wanted, explanations_to_json(wanted, found))

    def _render(self, request: Request, wanted: str, told: dict[str, Any] | None = None, status: int = 200) -> Response:
        values = {
            "wanted": wanted,
            "told": told,
            "version_now": self._host.active_policy.policy.version,
            "effect_words": {str(effect): words for effect, words in EFFECT_TEXT.items()},
            "here": "/policy/explain",  # where it stands among the pages, though members find it too
        }
        return render_page(request, "explain.html", values, status)
