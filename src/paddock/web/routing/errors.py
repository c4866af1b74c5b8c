"""Error handling: every error becomes a response with an error id, and internals stay in the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from math import ceil
from time import perf_counter
from typing import Any, Protocol, TypeAlias

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.core.error_formats import http_status
from paddock.core.errors import CallerError, HostError, NotFound, PaddockError, clear_tracebacks
from paddock.core.printable import printable
from paddock.web.request_headers import request_headers
from paddock.web.routing.error_formats import error_format_at, is_page_path
from paddock.web.security.authenticate import ChallengeParameters, www_authenticate_header

_DEFAULT_RETRY_AFTER_S = "1"
_LOGIN_LINK = re.compile(r"(/login/).+")

ErrorPage: TypeAlias = Callable[[dict[str, Any], int, dict[str, str], Scope], Response]
"""Renders a problem body as a page, with this status and these headers, for this request."""


class NoticePage(Protocol):
    """A page with one message, also for people who are not signed in; the console renders it."""

    def __call__(
        self, title: str, message: str, *, button: str = "", home: str = "", status: int = 200
    ) -> Response: ...


log = logging.getLogger("paddock.web")


class MethodNotAllowed(CallerError):
    """The path exists, but not for this method."""

    code = "http.method_not_allowed"


class ErrorMiddleware:
    """Runs the application and renders the errors that it raises.

    Args:
        app: The application.
        new_error_id: Creates the id of each error.
        challenge: Parameters of the WWW-Authenticate header beside the realm.
        page: Renders an error for browsers.
    """

    def __init__(
        self,
        app: ASGIApp,
        new_error_id: Callable[[], str],
        challenge: ChallengeParameters | None = None,
        page: ErrorPage | None = None,
    ) -> None:
        self._error_page = page
        self._app = app
        self._new_error_id = new_error_id
        self._challenge = challenge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent_status, started_at = 0, perf_counter()

        async def track_status(message: Message) -> None:
            nonlocal sent_status
            sent_status = sent_status or message["status"]
            await send(message)

        try:
            await self._app(scope, receive, track_status)
            if log.isEnabledFor(logging.DEBUG):
                elapsed_ms = (perf_counter() - started_at) * 1000
                log.debug("%s %s: %d in %.1f ms", scope["method"], _redacted_path(scope), sent_status, elapsed_ms)
        except (PaddockError, HTTPException) as error:
            if sent_status:
                raise
            paddock_error = error if isinstance(error, PaddockError) else _routing_error(error, scope)
            clear_tracebacks(error)  # a finished call keeps its error
            await self._response(paddock_error, scope)(scope, receive, send)
        except Exception as error:
            # The boundary: the caller gets an id, the log gets the rest.
            if sent_status:
                raise
            await self._response(_internal_error(error), scope, error)(scope, receive, send)

    def _response(self, error: PaddockError, scope: Scope, cause: Exception | None = None) -> Response:
        error_id, status = self._new_error_id(), http_status(error)
        error_format = error_format_at(scope["path"])
        body = dict(error_format.render(error, error_id))
        if instance := scope.get("state", {}).get("instance"):
            body["instance"] = instance
        if status >= 500:
            facts = {"error_id": error_id, "code": error.error_code, "path": _redacted_path(scope)}
            log.log(
                logging.ERROR if cause else logging.WARNING,
                "%s %s: %s",
                scope["method"],
                _redacted_path(scope),
                error.message,
                exc_info=cause,
                extra={"facts": facts},
            )
        headers = retry_after_header(error)
        if status in (401, 403) and (challenge := www_authenticate_header(scope, error, self._challenge)) is not None:
            headers["www-authenticate"] = challenge
        if isinstance(error, MethodNotAllowed):
            headers["allow"] = error.details["allow"]
        if (
            self._error_page
            and is_page_path(scope["path"])
            and b"text/html" in request_headers(scope).get(b"accept", b"")
        ):
            try:
                return self._error_page(body, status, headers, scope)
            except Exception:  # a failing page must not hide the error
                log.exception("the page about %s could not be shown", error_id)
        return Response(orjson.dumps(body, default=str), status, headers, error_format.media_type)


def _redacted_path(scope: Scope) -> str:
    """Return the path for logs, without the token of a login link: readers of a log must not be able to sign in."""
    return _LOGIN_LINK.sub(r"\1…", scope["path"])


def retry_after_header(error: PaddockError) -> dict[str, str]:
    """Return the `Retry-After` header for errors that may pass."""
    if http_status(error) not in (429, 503):
        return {}
    retry_after_s = error.details.get("retry_after")
    return {"retry-after": str(ceil(retry_after_s)) if retry_after_s else _DEFAULT_RETRY_AFTER_S}


def _routing_error(error: HTTPException, scope: Scope) -> PaddockError:
    path = printable(scope["path"], 200)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return MethodNotAllowed(
            f"{scope['method']} is not for {path}", hint=f"use {allowed}", details={"allow": allowed}
        )
    return NotFound(f"there is nothing at {path}", code="http.no_route", hint="see /api/v1/openapi.json")


def _internal_error(error: Exception) -> HostError:
    del error  # its text may contain confidential data
    return HostError("something went wrong inside Paddock", code="internal", hint="the daemon's log has this error id")
