"""OAuth protected resource metadata (RFC 9728): tells clients which provider issues tokens for this host."""

from __future__ import annotations

from typing import Final, NotRequired, TypedDict

from starlette.requests import Request

from paddock.config.oidc_settings import OidcSettings
from paddock.web.oidc.claims import supported_scopes
from paddock.web.routing.route import PUBLIC, ApiRoute, JsonResponse

WELL_KNOWN_PATH: Final = "/.well-known/oauth-protected-resource"
MCP_RESOURCE_PATH: Final = "/mcp"


class ProtectedResourceMetadataJson(TypedDict):
    """OAuth protected resource metadata (RFC 9728)."""

    resource: str
    resource_name: str
    authorization_servers: list[str]
    bearer_methods_supported: list[str]
    scopes_supported: NotRequired[list[str]]


class ProtectedResource:
    """Describes the one resource that tokens are for, `<http.public_url>/mcp`; such tokens are valid for the API too.

    Args:
        public_url: Public URL of this host, without a trailing slash.
        oidc: Settings of the provider that issues the tokens.
    """

    def __init__(self, public_url: str, oidc: OidcSettings) -> None:
        self.resource = public_url + MCP_RESOURCE_PATH
        self.metadata_url = public_url + WELL_KNOWN_PATH + MCP_RESOURCE_PATH
        self._authorization_servers = [] if oidc.issuer is None else [oidc.issuer]
        self._scopes = supported_scopes(oidc)

    def endpoints(self) -> list[ApiRoute]:
        # Served at the standard's path and at the one that older clients use, with the same content.
        handlers = (
            (WELL_KNOWN_PATH + MCP_RESOURCE_PATH, self.protected_resource),
            (WELL_KNOWN_PATH, self.protected_resource_of_the_host),
        )
        return [
            ApiRoute(
                "GET",
                path,
                handler,
                "Protected resource metadata",
                "The provider that issues tokens for this host, and the resource they must name (RFC 9728).",
                prefix="",
                tag="sign-in",
                access=PUBLIC,
            )
            for path, handler in handlers
        ]

    async def protected_resource(self, request: Request) -> JsonResponse[ProtectedResourceMetadataJson]:
        del request
        return JsonResponse(self.document())

    async def protected_resource_of_the_host(self, request: Request) -> JsonResponse[ProtectedResourceMetadataJson]:
        return await self.protected_resource(request)

    def document(self) -> ProtectedResourceMetadataJson:
        document: ProtectedResourceMetadataJson = {
            "resource": self.resource,
            "resource_name": "Paddock",
            "authorization_servers": self._authorization_servers,
            "bearer_methods_supported": ["header"],
        }
        if self._scopes:
            document["scopes_supported"] = self._scopes
        return document
