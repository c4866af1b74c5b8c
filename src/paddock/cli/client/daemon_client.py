"""The client of a running daemon: its API over the local socket, with its errors as exceptions."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from paddock.config.directories import Directories, find_directories
from paddock.core.action import Action
from paddock.core.errors import (
    Busy,
    CallerError,
    Category,
    Conflict,
    Denied,
    HostError,
    Invalid,
    NeedsConsent,
    NotFound,
    PaddockError,
    PluginError,
    Problem,
    StoreUnavailable,
    TimedOut,
    Unavailable,
    Unreachable,
)
from paddock.core.ids import DEFAULT_TENANT
from paddock.web.daemon_address import socket_path

if TYPE_CHECKING:
    from paddock.cli.client.local_http import LocalHttpExchange

API_PREFIX = "/api/v1"
EVENT_STREAM_TYPE = "text/event-stream"
RESPONSE_TIMEOUT_S = 60.0  # for a response that does not wait for a plugin

_ERROR_TYPES: Mapping[Category, type[PaddockError]] = {
    Category.VALIDATION: CallerError,
    Category.NOT_FOUND: NotFound,
    Category.AUTHORIZATION: NeedsConsent,
    Category.POLICY: Denied,
    Category.CONFLICT: Conflict,
    Category.TRANSIENT: Busy,
    Category.DEPENDENCY: Unreachable,
    Category.PLUGIN: PluginError,
    Category.TIMEOUT: TimedOut,
    Category.INTERNAL: HostError,
}
_RETRYABLE_ERROR_TYPES: Mapping[Category, type[PaddockError]] = {
    Category.DEPENDENCY: StoreUnavailable,
    Category.PLUGIN: Unavailable,
}


class DaemonClient:
    """Sends requests to the daemon.

    Leaving early, for instance by Ctrl-C, closes the connection, and that cancels a call that is being waited for.
    """

    def __init__(self, path: Path, tenant: str = DEFAULT_TENANT) -> None:
        self.path = path
        self._tenant = tenant

    def get(self, path: str, *, timeout_s: float | None = RESPONSE_TIMEOUT_S) -> Any:
        """Send a GET and return the response.

        Raises:
            PaddockError: the error that the daemon returned, or that it is gone.
        """
        with self._open_response("GET", path, None, timeout_s) as response:
            return _parse_json(response.read())

    def post(
        self, path: str, body: Any = None, *, timeout_s: float | None = RESPONSE_TIMEOUT_S, acting_as: str | None = None
    ) -> Any:
        """Send a POST and return the response; see `get`. `acting_as` names the principal, as in `user:ann`."""
        with self._open_response("POST", path, body, timeout_s, acting_as=acting_as) as response:
            return _parse_json(response.read())

    def put(self, path: str, body: Any, *, timeout_s: float | None = RESPONSE_TIMEOUT_S) -> Any:
        """Send a PUT and return the response; see `get`."""
        with self._open_response("PUT", path, body, timeout_s) as response:
            return _parse_json(response.read())

    @contextmanager
    def stream_events(
        self, path: str, *, timeout_s: float | None = None
    ) -> Generator[Iterator[tuple[str, dict[str, Any]]], None, None]:
        """Iterate over the server-sent events at a path, each with its kind, until the daemon or the block ends them.

        Raises:
            TimedOut: neither did within that many seconds.
        """
        with self._open_response("GET", path, None, timeout_s) as response:
            yield response.events()

    @contextmanager
    def stream_call(
        self, body: dict[str, Any], timeout_s: float | None, acting_as: str | None = None
    ) -> Generator[tuple[str, Iterator[tuple[str, dict[str, Any]]]], None, None]:
        """Make a call; yield its id and its events. Leaving the block before its end cancels the call.

        Raises:
            TimedOut: it did not end within that many seconds.
        """
        with self._open_response(
            "POST", "/calls", body, timeout_s, accept=EVENT_STREAM_TYPE, acting_as=acting_as
        ) as response:
            yield response.call_id, response.events()

    @contextmanager
    def _open_response(
        self,
        method: str,
        path: str,
        body: Any,
        timeout_s: float | None,
        accept: str = "application/json",
        acting_as: str | None = None,
    ) -> Generator[_DaemonResponse, None, None]:
        from paddock.cli.client.local_http import LocalHttpExchange

        encoded = encode_body(body) if body is not None else None
        with _translate_connection_errors(timeout_s, accept):
            exchange = LocalHttpExchange(self.path, timeout_s)
        with exchange:
            response = _DaemonResponse(exchange, timeout_s, accept)
            with _translate_connection_errors(timeout_s, accept):
                exchange.send_request(method, API_PREFIX + self._with_tenant_param(path), encoded, accept, acting_as)
            if exchange.status >= 400:
                raise error_from_problem(_parse_json(response.read()), exchange.status)
            yield response

    def _with_tenant_param(self, path: str) -> str:
        """Add the tenant to the path unless it is the default tenant."""
        if self._tenant == DEFAULT_TENANT:
            return path
        return f"{path}{'&' if '?' in path else '?'}tenant={path_segment(self._tenant)}"


class _DaemonResponse:
    """A response of the daemon. Only connection errors while reading it are translated, not the reader's own."""

    def __init__(self, exchange: LocalHttpExchange, timeout_s: float | None, accept: str) -> None:
        self._exchange = exchange
        self._expected = (timeout_s, accept)

    @property
    def call_id(self) -> str:
        """The id of the call that the response is about."""
        return self._exchange.content_location.partition("?")[0].rpartition("/")[2]

    def read(self) -> bytes:
        """Return the whole body."""
        with _translate_connection_errors(*self._expected):
            return self._exchange.read_body()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Iterate over server-sent events, each with its kind."""
        buffer = b""
        while chunk := self._read_chunk():
            *blocks, buffer = (buffer + chunk).split(b"\n\n")
            for block in blocks:
                fields = {name: value for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))}
                if b"data" in fields:  # a comment has none
                    yield fields.get(b"event", b"message").decode(), json.loads(fields[b"data"])

    def _read_chunk(self) -> bytes:
        with _translate_connection_errors(*self._expected):
            return self._exchange.read_chunk()


@contextmanager
def _translate_connection_errors(timeout_s: float | None, accept: str) -> Generator[None, None, None]:
    """Map connection errors; wraps only the exchange with the daemon."""
    from paddock.cli.client.local_http import MalformedHttpResponse, SocketNotAccepting

    try:
        yield
    except SocketNotAccepting:
        raise _daemon_unresponsive_error() from None
    except TimeoutError:
        code = "call.timeout" if accept == EVENT_STREAM_TYPE else "daemon.timeout"
        raise TimedOut(f"no answer within {timeout_s:g} s", code=code, hint="what it was asked is cancelled") from None
    except (OSError, MalformedHttpResponse) as error:
        raise HostError(
            "the connection to the daemon was lost", code="daemon.lost", hint="start it again: paddock serve"
        ) from error


def encode_body(body: Any) -> bytes:
    """Encode a request body as compact JSON without ASCII escapes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def running_daemon(directories: Directories | None = None, *, tenant: str = DEFAULT_TENANT) -> DaemonClient | None:
    """Return the client of this home's daemon, if one is listening.

    Raises:
        Busy: it listens and does not accept connections.
        Denied: the home belongs to another user.
        HostError: the system does not allow the check.
    """
    path = socket_path(directories or find_directories(os.environ, Path.home()))
    try:
        if not path.is_socket():
            return None  # the common case, handled before any import
        from paddock.cli.client.local_http import SocketNotAccepting, connect

        try:
            connect(path).close()
        except SocketNotAccepting:
            raise _daemon_unresponsive_error() from None
    except OSError as error:
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None  # left by a killed daemon
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _socket_owner_error(path) from None
        raise HostError(f"cannot reach the daemon: {error.strerror}", code="daemon.unreachable") from error
    return DaemonClient(path, tenant)


def require_daemon(purpose: str, tenant: str = DEFAULT_TENANT) -> DaemonClient:
    """Return the client of this home's daemon, for a tenant; for commands that need a daemon.

    Raises:
        Unreachable: no daemon runs.
        PaddockError: see `running_daemon`.
    """
    daemon = running_daemon(tenant=tenant)
    if daemon is None:
        raise Unreachable(
            f"no daemon runs, and {purpose} needs one",
            code="daemon.not_running",
            hint="start one in another terminal: paddock serve",
        )
    return daemon


def _daemon_unresponsive_error() -> Busy:
    return Busy(
        "the daemon does not answer", code="daemon.silent", hint="it is very busy or stopped; try again, or restart it"
    )


def _socket_owner_error(path: Path) -> Denied:
    from paddock.web.daemon_address import path_owner

    owner = path_owner(path)
    ownership = f"belongs to {owner}" if owner else "belongs to somebody else"
    return Denied(
        f"the daemon's socket {path} {ownership}",
        code="daemon.not_yours",
        hint=f"run the command as {owner or 'that user'}, or set PADDOCK_HOME to a directory of your own",
    )


def path_segment(name: str) -> str:
    """Quote a name as one segment of a path."""
    from urllib.parse import quote

    return quote(name, safe="")


def error_from_problem(body: Any, status: int) -> PaddockError:
    """Rebuild the error behind a problem body: same code, message and exit code."""
    problem = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    message, hint = (
        str(problem.get("message") or problem.get("detail") or f"HTTP {status}"),
        str(problem.get("hint") or ""),
    )
    action = Action.from_json(problem.get("action"))
    code, details = str(problem.get("code") or "daemon.unclear"), cast("dict[str, Any]", problem.get("details") or {})
    try:
        category = Category(problem.get("category", "internal"))
    except ValueError:
        category = Category.INTERNAL
    if category is Category.VALIDATION and (errors := problem.get("errors")):
        problems = [_parse_problem(item) for item in errors]
        return Invalid(message, problems, code=code, hint=hint, action=action, details=details)
    error_type = _RETRYABLE_ERROR_TYPES.get(category) if problem.get("retryable") else None
    error = (error_type or _ERROR_TYPES[category])(message, code=code, hint=hint, action=action, details=details)
    if problem.get("retryable") is False:
        error.__dict__["retryable"] = False  # as for a call that timed out and may have happened
    return error


def _parse_problem(value: dict[str, Any]) -> Problem:
    return Problem(
        str(value.get("path", "")),
        str(value.get("message", "")),
        str(value.get("hint", "")),
        str(value.get("code", "invalid")),
        value.get("line"),
        Action.from_json(value.get("action")),
    )


def _parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
