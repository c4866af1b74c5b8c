"""Builds the OIDC parts of the web application from the settings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from msgspec import Struct
from starlette.types import Scope

from paddock.config.oidc_settings import OidcSettings
from paddock.core.clock import Clock, Random
from paddock.core.errors import OperatorError, PaddockError
from paddock.host.host import Host
from paddock.web.oidc.access_tokens import AccessTokenAuthenticator, InsufficientScope, missing_scopes
from paddock.web.oidc.protected_resource import ProtectedResource
from paddock.web.oidc.provider import IdentityProvider
from paddock.web.oidc.routes import START_PATH, OidcRoutes
from paddock.web.routing.errors import NoticePage
from paddock.web.routing.route import ApiRoute
from paddock.web.security.authenticate import INSUFFICIENT_SCOPE, Caller, TokenAuthenticator


class OidcParts(Struct, frozen=True):
    """Routes, authenticators and challenge parameters for the configured provider."""

    endpoints: tuple[ApiRoute, ...]
    authenticators: tuple[TokenAuthenticator, ...]
    oidc: OidcSettings
    metadata_url: str
    sign_in_path: str  # empty if only programs use the provider, with access tokens

    def challenge_parameters(self, scope: Scope, error: PaddockError) -> Mapping[str, str]:
        """Return the parameters of the `WWW-Authenticate` challenge (RFC 6750, RFC 9728)."""
        location = {"resource_metadata": self.metadata_url}
        caller: Caller | None = scope["state"].get("caller")
        is_token_error = isinstance(error, InsufficientScope) or (caller is not None and caller.via == "token")
        if is_token_error and (lacking := missing_scopes(error, self.oidc)):
            return {"error": INSUFFICIENT_SCOPE, "scope": lacking, **location}
        required = self.oidc.required_scope
        return location if required is None else {"scope": required, **location}


def build_oidc(host: Host, clock: Clock, random: Random, notice_page: NoticePage) -> OidcParts | None:
    """Build the parts for the configured provider; None if none is configured.

    Raises:
        OperatorError: settings contradict each other.
    """
    oidc, public_url = host.settings.oidc, host.settings.http.public_url
    if oidc.issuer is None:
        return None
    if public_url is None:
        raise OperatorError(
            "an identity provider sends people back to an address, and none is set",
            code="oidc.no_public_url",
            hint="set http.public_url to where people reach this host, such as https://paddock.example.org",
        )
    if oidc.create and not (oidc.allowed_domains or oidc.allowed_groups):
        raise OperatorError(
            "oidc.create would add every user of the provider",
            code="oidc.open_to_all",
            hint="say who: set oidc.allowed_domains or oidc.allowed_groups",
        )
    public_url = public_url.rstrip("/")
    resource = ProtectedResource(public_url, oidc)
    if oidc.client_id == resource.resource:
        raise OperatorError(
            f"oidc.client_id is {resource.resource}, which is the audience of access tokens: an ID token would open"
            " the API too",
            code="oidc.client_is_resource",
            hint="register this host at the provider under another name, such as paddock, and set oidc.client_id to it",
        )
    import_module("jwt")  # now: the slow import would block every request

    provider, sign_ins = IdentityProvider(oidc.issuer, clock), host.identity.oidc
    endpoints = resource.endpoints()
    if oidc.client_id is not None:
        routes = OidcRoutes(provider, sign_ins, oidc, oidc.client_id, public_url, clock, random, notice_page)
        endpoints += routes.endpoints()
    authenticator = AccessTokenAuthenticator(provider, sign_ins, oidc, resource.resource, clock)
    return OidcParts(
        tuple(endpoints),
        (authenticator,),
        oidc,
        resource.metadata_url,
        START_PATH if oidc.client_id is not None else "",
    )
