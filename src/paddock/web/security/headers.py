"""Browser protection over TCP: Host and Origin checks, CORS preflight, and security headers of responses."""

from __future__ import annotations

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.core.errors import CallerError, Denied
from paddock.core.printable import printable
from paddock.web.request_headers import IncomingHeaders, request_headers
from paddock.web.security.allowed_hosts import AllowedHosts

DEFAULT_CSP = b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""Content security policy of responses that do not set their own."""

# Not `no-referrer`: browsers would then send `Origin: null` with the forms of our own pages.
_REFERRER_POLICY = b"same-origin"
_CORS_ALLOW_HEADERS = (
    "authorization, content-type, idempotency-key, last-event-id, mcp-protocol-version, mcp-session-id, prefer"
)
_CORS_EXPOSE_HEADERS = "content-location, idempotency-replayed, location, mcp-session-id, retry-after, www-authenticate"
_CORS_MAX_AGE_S = "86400"


class WrongHost(CallerError):
    """The `Host` header names another host."""

    code = "http.wrong_host"


class HostOriginMiddleware:
    """Rejects foreign Host names and origins over TCP. The local socket is not reachable by browsers."""

    def __init__(self, app: ASGIApp, allowed_hosts: AllowedHosts) -> None:
        self._app = app
        self._allowed_hosts = allowed_hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["state"].get("peer") is None:
            headers = request_headers(scope)
            self._check_host_and_origin(headers)
            if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
                await _PREFLIGHT_RESPONSE(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check_host_and_origin(self, headers: IncomingHeaders) -> None:
        host, origin = headers.text(b"host"), headers.text(b"origin")
        if host is None or b"host" in headers.repeated or not self._allowed_hosts.allows_host(host):
            message = (
                "the request needs exactly one Host header"
                if host is None or b"host" in headers.repeated
                else f"{printable(host, 100)} is not a name of this host"
            )
            raise WrongHost(
                message,
                hint="use the address that the daemon prints, or add the name: http.hosts, http.public_url",
            )
        if origin is not None and (
            b"origin" in headers.repeated or not self._allowed_hosts.allows_origin(origin.lower(), host)
        ):
            raise Denied(
                f"pages of {printable(origin, 100)} may not ask here",
                code="http.wrong_origin",
                hint="should they, add the origin: http.origins",
            )


# Response to the preflight that a browser sends before a cross-origin request with a key.
_PREFLIGHT_RESPONSE = Response(
    status_code=204,
    headers={
        "access-control-allow-methods": "GET, POST, PUT, DELETE",
        "access-control-allow-headers": _CORS_ALLOW_HEADERS,
        "access-control-max-age": _CORS_MAX_AGE_S,
    },
)


def add_security_headers(scope: Scope, send: Send, allowed_hosts: AllowedHosts) -> Send:
    """Wrap `send` to add security and CORS headers that the response does not set itself."""
    origin = request_headers(scope).get(b"origin")
    is_allowed_origin = origin is not None and origin.decode("latin-1").lower() in allowed_hosts.origins

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [*message.get("headers", ())]
            names = {name for name, _ in headers}
            if b"content-security-policy" not in names:
                headers.append((b"content-security-policy", DEFAULT_CSP))
            if b"cache-control" not in names:
                headers.append((b"cache-control", b"no-store"))
            if b"referrer-policy" not in names:
                headers.append((b"referrer-policy", _REFERRER_POLICY))
            if is_allowed_origin and origin is not None:
                headers.append((b"access-control-allow-origin", origin))
                headers.append((b"access-control-expose-headers", _CORS_EXPOSE_HEADERS.encode()))
                headers.append((b"vary", b"origin"))
            message = {**message, "headers": headers}
        await send(message)

    return send_with_headers
