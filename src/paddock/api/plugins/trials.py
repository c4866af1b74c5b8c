"""`/plugins/{name}/try`: whether a plugin answers in its cage, and the grants that it needs; and cancelling that."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired, TypedDict

from msgspec.structs import replace
from starlette.requests import Request

from paddock.api.cancellable_response import respond_until_disconnect
from paddock.core.schema_annotations import MemberConstraint
from paddock.host.host import Host
from paddock.host.identity.caller import require_interactive_person
from paddock.host.learn.trial_call import TrialCall
from paddock.host.learn.trial_report import PluginTrialJson
from paddock.web.request_context import call_context, request_tenant
from paddock.web.routing.body_parsers import MAX_GRANTS, parse_own_grants
from paddock.web.routing.route import HOST, TENANT_PARAM, ApiRoute, JsonResponse, RequestBody, path_param
from paddock.web.routing.validation import validated_body
from paddock.web.security.authenticate import caller_of


class TryPluginBody(TypedDict):
    grant: NotRequired[
        Annotated[
            list[str],
            MemberConstraint(max_items=MAX_GRANTS),
            "Capabilities that a person grants for this trial only, beside those that are granted already.",
        ]
    ]
    call: NotRequired[
        Annotated[
            str,
            MemberConstraint(min_length=1, max_length=256),
            "A tool to call, to see what that needs. The call is real, without an approval request; the rules decide"
            " about it. One that does not say that it only reads is made once; others in every pass.",
        ]
    ]
    input: NotRequired[Annotated[dict[str, Any], "The parameters of that call."]]


class CancelledTrialJson(TypedDict):
    name: Annotated[str, "The plugin, as it was named in the request."]
    cancelled: bool


class TrialRoutes:
    """The routes that try a plugin, and cancel that. Its cage is on this machine: only operators of the host may."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def endpoints(self) -> list[ApiRoute]:
        return [
            ApiRoute(
                "POST",
                "/plugins/{name}/try",
                self.try_plugin,
                "Try a plugin in a learning cage",
                "Whether it answers, and the grants it would need, each with its reason. It is started several times,"
                " with nothing allowed that is not granted; nothing is stored. A client that disconnects cancels the"
                " trial. Needs a signed-in person, not an API key.",
                query=TENANT_PARAM,
                request_body=RequestBody(TryPluginBody, {"grant": ["read:fs:/srv/docs"]}),
                error_statuses=(404, 409, 429, 502),
                access=HOST,
                needs_person=True,
            ),
            ApiRoute(
                "DELETE",
                "/plugins/{name}/try",
                self.cancel_trial,
                "Cancel the trial of a plugin",
                "Its processes are ended, and nothing is stored: the request that tries it fails with"
                " `trial.cancelled`. 404 if it is not being tried.",
                query=TENANT_PARAM,
                access=HOST,
                needs_person=True,
            ),
        ]

    async def try_plugin(self, request: Request) -> JsonResponse[PluginTrialJson]:
        body, principal = validated_body(request, TryPluginBody), caller_of(request).principal
        person = require_interactive_person(principal)
        grants, tenant = parse_own_grants(body, principal), await request_tenant(self._host, request)
        call = None
        if "call" in body:
            context = replace(await call_context(self._host, request), tenant=tenant)
            call = TrialCall(body["call"], body.get("input", {}), context)
        trial = self._host.plugins.learning.try_plugin(
            path_param(request), grants, by=person.id, tenant=tenant, call=call
        )
        return await respond_until_disconnect(request, trial)

    async def cancel_trial(self, request: Request) -> JsonResponse[CancelledTrialJson]:
        require_interactive_person(caller_of(request).principal)
        name = path_param(request)
        self._host.plugins.learning.cancel(name, await request_tenant(self._host, request))
        return JsonResponse({"name": name, "cancelled": True})
