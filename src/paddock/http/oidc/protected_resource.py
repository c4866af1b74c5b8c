"""What this host is as a place that takes access tokens (RFC 9728): where clients learn whom to ask for one."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from paddock.config.oidc_settings import OidcSettings
from paddock.http.endpoint import ANYBODY, Endpoint, answer
from paddock.http.oidc.vouched import scopes_offered
from paddock.http.schemas.building import TEXT, TEXTS, record

WELL_KNOWN: Final = "/.well-known/oauth-protected-resource"
MCP: Final = "/mcp"

_DOCUMENT = record(
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
    """Describes the one resource that tokens are for, `<http.public_url>/mcp`, which opens the API as well.

    Args:
        public_url: Where this host is reached, without a slash at its end.
        oidc: Who gives out tokens for it.
    """

    def __init__(self, public_url: str, oidc: OidcSettings) -> None:
        self.resource = public_url + MCP
        self.metadata = public_url + WELL_KNOWN + MCP
        self._issuer = oidc.issuer
        self._scopes = scopes_offered(oidc)

    def endpoints(self) -> list[Endpoint]:
        # Beside the place that the standard has for it, where older clients look; both say the same.
        rows = ((WELL_KNOWN + MCP, self.protected_resource), (WELL_KNOWN, self.protected_resource_of_the_host))
        return [
            Endpoint(
                "GET",
                path,
                handler,
                "Who gives out tokens for this host?",
                "Its name in such a token, and the provider to ask (RFC 9728).",
                gives=_DOCUMENT,
                prefix="",
                tag="sign-in",
                who=ANYBODY,
            )
            for path, handler in rows
        ]

    async def protected_resource(self, request: Request) -> Response:
        del request
        return answer(self.document())

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
