"""All routes of the HTTP API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from starlette.requests import Request

from paddock import __version__
from paddock.api.actions import ActionRoutes
from paddock.api.approvals import ApprovalRoutes
from paddock.api.artifacts import ArtifactRoutes
from paddock.api.calls import CallRoutes
from paddock.api.events import EventRoutes
from paddock.api.health import HealthRoutes
from paddock.api.identity.api_keys import ApiKeyRoutes
from paddock.api.identity.consents import ConsentRoutes
from paddock.api.identity.groups import GroupRoutes
from paddock.api.identity.people import PeopleRoutes
from paddock.api.identity.sign_ins import SignInRoutes
from paddock.api.identity.tenants import TenantRoutes
from paddock.api.inbox import InboxRoutes
from paddock.api.ledger import LedgerRoutes
from paddock.api.make_call import MakeCallRoutes
from paddock.api.plugins.configuration import ConfigurationRoutes
from paddock.api.plugins.features import DefinitionRoutes, FeatureRoutes
from paddock.api.plugins.installs import InstallRoutes
from paddock.api.plugins.knobs import KnobRoutes
from paddock.api.plugins.lifecycle import ActivationRoutes, VersionRoutes
from paddock.api.plugins.management import PluginManagementRoutes
from paddock.api.plugins.plugins import PluginRoutes
from paddock.api.plugins.trials import TrialRoutes
from paddock.api.policy import PolicyRoutes
from paddock.api.policy_files import PolicyFileRoutes
from paddock.api.secrets import SecretRoutes
from paddock.api.session import SessionRoutes
from paddock.api.unresolved_calls import UnresolvedCallRoutes
from paddock.api.webhooks import WebhookRoutes
from paddock.host.host import Host
from paddock.web.app import Shutdown
from paddock.web.routing.errors import NoticePage
from paddock.web.routing.openapi import build_openapi
from paddock.web.routing.route import ApiRoute, Handler, JsonResponse


def api_routes(
    host: Host, shutdown: Shutdown, notice_page: NoticePage, more: Sequence[ApiRoute] = ()
) -> tuple[ApiRoute, ...]:
    """Return every route of the API, including `/openapi.json`, which describes `more` as well."""
    routes: tuple[ApiRoute, ...] = (
        *MakeCallRoutes(host, shutdown.closing).endpoints(),
        *CallRoutes(host, shutdown.closing).endpoints(),
        *UnresolvedCallRoutes(host).endpoints(),
        *ActivationRoutes(host).endpoints(),
        *PluginRoutes(host, shutdown.closing).endpoints(),
        *VersionRoutes(host).endpoints(),
        *PluginManagementRoutes(host).endpoints(),
        *InstallRoutes(host, shutdown.closing).endpoints(),
        *TrialRoutes(host).endpoints(),
        *ConfigurationRoutes(host).endpoints(),
        *KnobRoutes(host).endpoints(),
        *DefinitionRoutes(host).endpoints(),
        *FeatureRoutes(host).endpoints(),
        *ActionRoutes(host).endpoints(),
        *ApprovalRoutes(host).endpoints(),
        *InboxRoutes(host, shutdown.closing).endpoints(),
        *ArtifactRoutes(host).endpoints(),
        *LedgerRoutes(host, shutdown.closing).endpoints(),
        *PolicyRoutes(host).endpoints(),
        *PolicyFileRoutes(host).endpoints(),
        *EventRoutes(host, shutdown.closing).endpoints(),
        *WebhookRoutes(host).endpoints(),
        *SecretRoutes(host).endpoints(),
        *TenantRoutes(host).endpoints(),
        *PeopleRoutes(host).endpoints(),
        *GroupRoutes(host).endpoints(),
        *ApiKeyRoutes(host).endpoints(),
        *ConsentRoutes(host).endpoints(),
        *SessionRoutes(host, notice_page).endpoints(),
        *HealthRoutes(host, shutdown.draining).endpoints(),
        *SignInRoutes(host).endpoints(),
        ApiRoute(
            "GET",
            "/openapi.json",
            _openapi(lambda: routes),
            "Describe this API",
            "An OpenAPI 3.1 document.",
        ),
        *more,
    )
    return routes


def _openapi(routes: Callable[[], Sequence[ApiRoute]]) -> Handler:
    async def openapi(_request: Request) -> JsonResponse[dict[str, Any]]:
        return JsonResponse(build_openapi(routes(), __version__))

    return openapi
