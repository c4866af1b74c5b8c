"""Errors on their way out: every one becomes a problem body with an id, and nothing else about us leaves."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from math import ceil
from time import perf_counter
from typing import Any, TypeAlias

import orjson
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from paddock.core.errors import CallerError, HostError, NotFound, PaddockError, let_go_of_frames
from paddock.core.outward import http_status
from paddock.core.printable import printable
from paddock.http.auth import ChallengeParameters, challenge
from paddock.http.frames import frame_at, is_for_people
from paddock.http.head import head_of

_RETRY_AFTER = "1"
_LINK = re.compile(r"(/login/).+")

ErrorPage: TypeAlias = Callable[[dict[str, Any], int, dict[str, str], Scope], Response]
"""Shows a problem body with this status and these headers, to whoever made this request."""

log = logging.getLogger("paddock.http")


class MethodNotAllowed(CallerError):
    """The address is right, the verb is not."""

    code = "http.method_not_allowed"


class Problems:
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
        self._page = page
        self._inside = inside
        self._new_error_id = new_error_id
        self._challenge = challenge

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun, began_at = 0, perf_counter()

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = begun or message["status"]
            await send(message)

        try:
            await self._inside(scope, receive, noting)
            if log.isEnabledFor(logging.DEBUG):
                taken = (perf_counter() - began_at) * 1000
                log.debug("%s %s: %d in %.1f ms", scope["method"], _logged(scope), begun, taken)
        except (PaddockError, HTTPException) as error:
            if begun:
                raise
            own = error if isinstance(error, PaddockError) else _of_the_router(error, scope)
            let_go_of_frames(error)  # that of a call is kept
            await self._response(own, scope)(scope, receive, send)
        except Exception as error:
            # The boundary: the caller gets an id, the log gets the rest.
            if begun:
                raise
            await self._response(_unforeseen(error), scope, error)(scope, receive, send)

    def _response(self, error: PaddockError, scope: Scope, cause: Exception | None = None) -> Response:
        error_id, status = self._new_error_id(), http_status(error)
        frame = frame_at(scope["path"])
        body = frame.body(error, error_id)
        if instance := scope.get("state", {}).get("instance"):
            body["instance"] = instance
        if status >= 500:
            facts = {"error_id": error_id, "code": error.error_code, "path": _logged(scope)}
            log.log(
                logging.ERROR if cause else logging.WARNING,
                "%s %s: %s",
                scope["method"],
                _logged(scope),
                error.message,
                exc_info=cause,
                extra={"facts": facts},
            )
        headers = when_to_try_again(error)
        if status in (401, 403) and (said := challenge(scope, error, self._challenge)) is not None:
            headers["www-authenticate"] = said
        if isinstance(error, MethodNotAllowed):
            headers["allow"] = error.details["allow"]
        if self._page and is_for_people(scope["path"]) and b"text/html" in head_of(scope).get(b"accept", b""):
            try:
                return self._page(body, status, headers, scope)
            except Exception:  # a page that fails must not hide what it was to tell
                log.exception("the page about %s could not be shown", error_id)
        return Response(orjson.dumps(body, default=str), status, headers, frame.media)


def _logged(scope: Scope) -> str:
    """The address as a log may have it: whoever reads that must not be able to sign in with a link."""
    return _LINK.sub(r"\1…", scope["path"])


def when_to_try_again(error: PaddockError) -> dict[str, str]:
    """The header that says so, for an error that may be over then."""
    if http_status(error) not in (429, 503):
        return {}
    wait = error.details.get("retry_after")
    return {"retry-after": str(ceil(wait)) if wait else _RETRY_AFTER}


def _of_the_router(error: HTTPException, scope: Scope) -> PaddockError:
    path = printable(scope["path"], 200)
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return MethodNotAllowed(
            f"{scope['method']} is not for {path}", hint=f"use {allowed}", details={"allow": allowed}
        )
    return NotFound(f"there is nothing at {path}", code="http.no_route", hint="see /api/v1/openapi.json")


def _unforeseen(error: Exception) -> HostError:
    del error  # its words may hold what is nobody's business
    return HostError("something went wrong inside Paddock", code="internal", hint="the daemon's log has this error id")
