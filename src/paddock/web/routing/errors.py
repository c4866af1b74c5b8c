"""Errors on their way out: every one becomes a problem body with an id, and nothing else about us leaves."""

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

from paddock.core.error_mapping import http_status
from paddock.core.errors import CallerError, HostError, NotFound, PaddockError, clear_tracebacks
from paddock.core.printable import printable
from paddock.web.request_headers import request_headers
from paddock.web.routing.error_formats import error_format_at, is_page_path
from paddock.web.security.authenticate import ChallengeParameters, www_authenticate_header

_DEFAULT_RETRY_AFTER_S = "1"
_LOGIN_LINK = re.compile(r"(/login/).+")

ErrorPage: TypeAlias = Callable[[dict[str, Any], int, dict[str, str], Scope], Response]


class NoticePage(Protocol):
    """A page with one message for somebody who may not be signed in; the console renders it."""

    def __call__(self, title: str, words: str, *, button: str = "", home: str = "", status: int = 200) -> Response: ...


"""Shows a problem body with this status and these headers, to whoever made this request."""

log = logging.getLogger("paddock.web")


class MethodNotAllowed(CallerError):
    """The address is right, the verb is not."""

    code = "http.method_not_allowed"


class ErrorMiddleware:
    """Runs the application inside and answers for it when it raises.

    Args:
        inside: The application.
        new_error_id: Names each error.
        challenge: What whoever is not proven to be anybody is told beside the realm.
        page: Shows an error to whoever looks with a browser.
    """

    def __init__(
        self,
        inside: ASGIApp,
        new_error_id: Callable[[], str],
        challenge: ChallengeParameters | None = None,
        page: ErrorPage | None = None,
    ) -> None:
        self._error_page = page
        self._app = inside
        self._new_error_id = new_error_id
        self._challenge = challenge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun, began_at = 0, perf_counter()

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
            if log.isEnabledFor(logging.DEBUG):
                taken = (perf_counter() - began_at) * 1000
                log.debug("%s %s: %d in %.1f ms", scope["method"], _redacted_path(scope), begun, taken)
        except (PaddockError, HTTPException) as error:
            if begun:
                raise
            own = error if isinstance(error, PaddockError) else _routing_error(error, scope)
            clear_tracebacks(error)  # that of a call is kept
            await self._response(own, scope)(scope, receive, send)
        except Exception as error:
            # The boundary: the caller gets an id, the log gets the rest.
            if begun:
                raise
            await self._response(_internal_error(error), scope, error)(scope, receive, send)

    def _response(self, error: PaddockError, scope: Scope, cause: Exception | None = None) -> Response:
        error_id, status = self._new_error_id(), http_status(error)
        frame = error_format_at(scope["path"])
        body = frame.render(error, error_id)
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
        if status in (401, 403) and (said := www_authenticate_header(scope, error, self._challenge)) is not None:
            headers["www-authenticate"] = said
        if isinstance(error, MethodNotAllowed):
            headers["allow"] = error.details["allow"]
        if (
            self._error_page
            and is_page_path(scope["path"])
            and b"text/html" in request_headers(scope).get(b"accept", b"")
        ):
            try:
                return self._error_page(body, status, headers, scope)
            except Exception:  # a page that fails must not hide what it was to tell
                log.exception("the page about %s could not be shown", error_id)
        return Response(orjson.dumps(body, default=str), status, headers, frame.media_type)


def _redacted_path(scope: Scope) -> str:
    """The address as a log may have it: whoever reads that must not be able to sign in with a link."""
    return _LOGIN_LINK.sub(r"\1…", scope["path"])


def retry_after_header(error: PaddockError) -> dict[str, str]:
    """The header that says so, for an error that may be over then."""
    if http_status(error) not in (429, 503):
        return {}
    wait = error.details.get("retry_after")
    return {"retry-after": str(ceil(wait)) if wait else _DEFAULT_RETRY_AFTER_S}


def _routing_error(error: HTTPException, scope: Scope) -> PaddockError:
    path = printable(scope["path"], 200)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return MethodNotAllowed(
            f"{scope['method']} is not for {path}", hint=f"use {allowed}", details={"allow": allowed}
        )
    return NotFound(f"there is nothing at {path}", code="http.no_route", hint="see /api/v1/openapi.json")


def _internal_error(error: Exception) -> HostError:
    del error  # its words may hold what is nobody's business
    return HostError("something went wrong inside Paddock", code="internal", hint="the daemon's log has this error id")
