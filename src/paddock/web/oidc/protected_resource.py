"""OAuth protected resource metadata (RFC 9728): tells clients which provider issues tokens for this host."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.config.oidc_settings import OidcSettings
from paddock.web.oidc.claims import supported_scopes
from paddock.web.routing.route import ANYBODY, ApiRoute, json_response
from paddock.web.routing.schema import TEXT, TEXTS, object_schema

WELL_KNOWN_PATH: Final = "/.well-known/oauth-protected-resource"
MCP_RESOURCE_PATH: Final = "/mcp"

_METADATA_SCHEMA = object_schema(
    {
        "resource": TEXT,
        "resource_name": TEXT,
        "authorization_servers": TEXTS,
        "bearer_methods_supported": TEXTS,
        "scopes_supported": TEXTS,
    },
    optional=("scopes_supported",),
)


class ProtectedResource:
    """Describes the one resource that tokens are for, `<http.public_url>/mcp`; such tokens are valid for the API too.

    Args:
        public_url: Public URL of this host, without a trailing slash.
        oidc: Settings of the provider that issues the tokens.
    """

    def __init__(self, public_url: str, oidc: OidcSettings) -> None:
        self.resource = public_url + MCP_RESOURCE_PATH
        self.metadata_url = public_url + WELL_KNOWN_PATH + MCP_RESOURCE_PATH
        self._issuer = oidc.issuer
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
                "Who gives out tokens for this host?",
                "Its name in such a token, and the provider to ask (RFC 9728).",
                response_schema=_METADATA_SCHEMA,
                prefix="",
                tag="sign-in",
                access=ANYBODY,
            )
            for path, handler in handlers
        ]

    async def protected_resource(self, request: Request) -> Response:
        del request
        return json_response(self.document())

    async def protected_resource_of_the_host(self, request: Request) -> Response:
        return await self.protected_resource(request)

    def document(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "resource_name": "Paddock",
            "authorization_servers": [self._issuer],
            "bearer_methods_supported": ["header"],
            **({"scopes_supported": self._scopes} if self._scopes else {}),
        }
