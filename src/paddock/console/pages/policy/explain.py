"""Policy simulation (`/policy/try`) and explanations of past decisions (`/explain`).

A simulation changes nothing, so its question is in the query string.
"""

from __future__ import annotations

from urllib.parse import quote

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from paddock.console.page import Page, render_page
from paddock.core.errors import NotFound, PaddockError
from paddock.host.explain.explain_service import ExplanationJson, explanations_to_json
from paddock.host.host import Host
from paddock.host.policy.hypothetical_call import ROLE_PREFIX, HypotheticalCall, HypotheticalDecision
from paddock.host.policy.policy_service import PolicyTryOptions
from paddock.manifest.effects import EFFECT_TEXT, Effect
from paddock.web.request_context import call_context
from paddock.web.routing.route import MAX_NAME_CHARS, OPERATOR, path_param

_MAX_VALUES = 50
_MAX_OFFERED_CALLERS = 200  # people to choose from, and API keys


class PolicySimulationPages:
    """Simulates the policy decision about a hypothetical call."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("GET", "/policy/try", self.simulate, OPERATOR)]

    async def simulate(self, request: Request) -> Response:
        principal = (await call_context(self._host, request)).principal
        hypothetical = parse_hypothetical_call(request)
        decision: HypotheticalDecision | None = None
        failure: PaddockError | None = None
        if hypothetical.who and hypothetical.what:
            try:
                decision = await self._host.policy.rules.try_call(principal, hypothetical)
            except PaddockError as error:
                failure = error
        all_options = await self._host.policy.rules.try_options(principal.tenant)
        options = replace(
            all_options, people=all_options.people[:_MAX_OFFERED_CALLERS], keys=all_options.keys[:_MAX_OFFERED_CALLERS]
        )
        values = {
            "cast": options,
            # If there are too many people, the others are typed.
            "left_out": options != all_options,
            "unlisted": "" if hypothetical.who in offered_callers(options, principal.id) else hypothetical.who,
            "effects": {str(effect): EFFECT_TEXT[effect] for effect in Effect},
            "asked": hypothetical,
            "started": "who" in request.query_params,
            "answered": decision,
            "wrong": failure,
            "myself": principal.id,
        }
        return render_page(request, "policy/policy_try.html", values, 422 if failure else 200)


def offered_callers(options: PolicyTryOptions, own_id: str) -> set[str]:
    """Return the ids of all callers that can be selected."""
    roles, agents = (f"{ROLE_PREFIX}{item}" for item in options.roles), (f"agent:{item}" for item in options.agents)
    return {
        own_id,
        *roles,
        *agents,
        *(item.id for item in options.people),
        *(f"key:{item.id}" for item in options.keys),
    }


def parse_hypothetical_call(request: Request) -> HypotheticalCall:
    """Parse the hypothetical call in the query string."""
    query = request.query_params

    def text_param(name: str) -> str:
        return query.get(name, "").strip()[:MAX_NAME_CHARS]

    def list_param(name: str) -> tuple[str, ...]:
        return tuple(text[:MAX_NAME_CHARS] for text in query.getlist(name)[:_MAX_VALUES] if text)

    return HypotheticalCall(
        text_param("person") or text_param("who"),
        text_param("other") or text_param("what"),
        roles=list_param("role"),
        effects=list_param("effect"),
        consented="consented" in query,
        allowlisted="allowlisted" in query,
        background="background" in query,
    )


class ExplainPages:
    """Explains decisions to everybody: members see their own calls, without confidential rule texts."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def routes(self) -> list[Page]:
        return [Page("GET", "/explain", self.show_form), Page("GET", "/explain/{id}", self.show)]

    async def show_form(self, request: Request) -> Response:
        subject_id = request.query_params.get("id", "").strip()[:MAX_NAME_CHARS]
        if subject_id:
            return RedirectResponse(f"/explain/{quote(subject_id, safe='')}", 303)
        return self._render(request, "")

    async def show(self, request: Request) -> Response:
        context, subject_id = await call_context(self._host, request), path_param(request, "id").strip()
        try:
            explanations = await self._host.policy.explanations.explain(subject_id, context.principal)
        except NotFound:
            return self._render(request, subject_id, status=404)
        found = explanations_to_json(subject_id, explanations)
        calls = [one["call_id"] for one in found["calls"]]
        if len(calls) == 1 and (subject_id == calls[0] or subject_id.startswith(("apr_", "sta_"))):
            return RedirectResponse(f"/calls/{quote(calls[0], safe='')}#decision", 303)
        return self._render(request, subject_id, found)

    def _render(
        self, request: Request, subject_id: str, explanations: ExplanationJson | None = None, status: int = 200
    ) -> Response:
        values = {
            "wanted": subject_id,
            "explanations": explanations,
            "version_now": self._host.policy.active.policy.version,
            "effect_words": {str(effect): text for effect, text in EFFECT_TEXT.items()},
        }
        return render_page(request, "policy/explain.html", values, status)
