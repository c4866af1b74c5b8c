"""Between browsers and the API over TCP: names that are not ours, pages of others, and what browsers are told."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.core.errors import CallerError, Denied
from paddock.core.printable import printable
from paddock.web.request_headers import IncomingHeaders, request_headers
from paddock.web.security.allowed_hosts import AllowedHosts

DEFAULT_CSP = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What an answer may load where it does not say otherwise itself."""

# Not `no-referrer`: with that a browser would say `Origin: null` when somebody presses a button of a page of ours.
_REFERRER_POLICY = b"same-origin"
_CORS_ALLOW_HEADERS = (
    "authorization, content-type, idempotency-key, last-event-id, mcp-protocol-version, mcp-session-id, prefer"
)
_CORS_EXPOSE_HEADERS = "content-location, idempotency-replayed, location, mcp-session-id, retry-after, www-authenticate"
_CORS_MAX_AGE_S = "86400"


class WrongHost(CallerError):
    """The request asks for somebody else."""

    code = "http.wrong_host"


class HostOriginMiddleware:
    """Refuses over TCP what asks for another host, or comes from a page of one. The local socket has no browsers."""

    def __init__(self, inside: ASGIApp, sites: AllowedHosts) -> None:
        self._app = inside
        self._sites = sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"].get("peer") is None:
            head = request_headers(scope)
            self._check_host_and_origin(head)
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in head:
                await _PREFLIGHT_RESPONSE(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_host_and_origin(self, head: IncomingHeaders) -> None:
        host, origin = head.text(b"host"), head.text(b"origin")
        if host is None or b"host" in head.repeated or not self._sites.allows_host(host):
            named = "this" if host is None or b"host" in head.repeated else printable(host, 100)
            raise WrongHost(
                f"{named} is no name of this host",
                hint="ask for the address that paddock serve names, or add the name: http.hosts, http.public_url",
            )
        if origin is not None and (b"origin" in head.repeated or not self._sites.allows_origin(origin.lower(), host)):
            raise Denied(
                f"pages of {printable(origin, 100)} may not ask here",
                code="http.wrong_origin",
                hint="should they, add the origin: http.origins",
            )


# What a browser asks before it lets a page of another origin ask with a key.
_PREFLIGHT_RESPONSE = Response(
    status_code=204,
    headers={
        "access-control-allow-methods": "GET, POST, PUT, DELETE",
        "access-control-allow-headers": _CORS_ALLOW_HEADERS,
        "access-control-max-age": _CORS_MAX_AGE_S,
    },
)


def add_security_headers(scope: Scope, send: Send, sites: AllowedHosts) -> Send:
    """Adds to every answer what browsers are told where the answer does not say it itself."""
    origin = request_headers(scope).get(b"origin")
    other = origin is not None and origin.decode("latin-1").lower() in sites.origins

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            said = {name for name, _ in headers}
            if b"content-security-policy" not in said:
                headers.append((b"content-security-policy", DEFAULT_CSP))
            if b"cache-control" not in said:
                headers.append((b"cache-control", b"no-store"))
            if b"referrer-policy" not in said:
                headers.append((b"referrer-policy", _REFERRER_POLICY))
            if other and origin is not None:
                headers.append((b"access-control-allow-origin", origin))
                headers.append((b"access-control-expose-headers", _CORS_EXPOSE_HEADERS.encode()))
                headers.append((b"vary", b"origin"))
            message = {**message, "headers": headers}
        await send(message)

    return sending
