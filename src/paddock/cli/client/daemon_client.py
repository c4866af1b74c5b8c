"""A running daemon as commands see it: its API over the local socket, its errors as the errors they are."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from paddock.config.directories import Directories, find_directories
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
RESPONSE_TIMEOUT_S = 60.0  # seconds for an answer that takes no plugin's time

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
    """Asks the daemon. Leaving early, by Ctrl-C for instance, hangs up, and that cancels a call that is waited for."""

    def __init__(self, path: Path, tenant: str = DEFAULT_TENANT) -> None:
        self.path = path
        self._tenant = tenant

    def get(self, path: str, *, wait: float | None = RESPONSE_TIMEOUT_S) -> Any:
        """What a GET answers.

        Raises:
            PaddockError: what the daemon says went wrong, or that it is gone.
        """
        with self._open_response("GET", path, None, wait) as answer:
            return _parse_json(answer.read())

    def post(
        self, path: str, body: Any = None, *, wait: float | None = RESPONSE_TIMEOUT_S, acting_as: str | None = None
    ) -> Any:
        """What a POST answers; see `get`. `acting_as` is in whose name, as in `user:ann`."""
        with self._open_response("POST", path, body, wait, acting_as=acting_as) as answer:
            return _parse_json(answer.read())

    def put(self, path: str, body: Any, *, wait: float | None = RESPONSE_TIMEOUT_S) -> Any:
        """What a PUT answers; see `get`."""
        with self._open_response("PUT", path, body, wait) as answer:
            return _parse_json(answer.read())

    @contextmanager
    def stream_events(
        self, path: str, *, wait: float | None = None
    ) -> Generator[Iterator[tuple[str, dict[str, Any]]], None, None]:
        """The server-sent events at a path, each with its kind, until the daemon ends them or the block does.

        Raises:
            TimedOut: neither did within so many seconds.
        """
        with self._open_response("GET", path, None, wait) as answer:
            yield answer.events()

    @contextmanager
    def stream_call(
        self, body: dict[str, Any], seconds: float | None, acting_as: str | None = None
    ) -> Generator[tuple[str, Iterator[tuple[str, dict[str, Any]]]], None, None]:
        """Make a call: its id, and what it tells to its end; leaving the block before that cancels it.

        Raises:
            TimedOut: it did not end within these seconds.
        """
        with self._open_response(
            "POST", "/calls", body, seconds, accept=EVENT_STREAM_TYPE, acting_as=acting_as
        ) as answer:
            yield answer.call_id, answer.events()

    @contextmanager
    def _open_response(
        self,
        method: str,
        path: str,
        body: Any,
        wait: float | None,
        accept: str = "application/json",
        acting_as: str | None = None,
    ) -> Generator[_DaemonResponse, None, None]:
        from paddock.cli.client.local_http import LocalHttpExchange

        sent = encode_body(body) if body is not None else None
        with _translate_connection_errors(wait, accept):
            exchange = LocalHttpExchange(self.path, wait)
        with exchange:
            answer = _DaemonResponse(exchange, wait, accept)
            with _translate_connection_errors(wait, accept):
                exchange.send_request(method, API_PREFIX + self._with_tenant_param(path), sent, accept, acting_as)
            if exchange.status >= 400:
                raise error_from_problem(_parse_json(answer.read()), exchange.status)
            yield answer

    def _with_tenant_param(self, path: str) -> str:
        """The same address for another tenant than the default one, where this asks about that."""
        if self._tenant == DEFAULT_TENANT:
            return path
        return f"{path}{'&' if '?' in path else '?'}tenant={path_segment(self._tenant)}"


class _DaemonResponse:
    """What comes back. Only its own troubles are the daemon's: whoever reads it may fail at writing elsewhere."""

    def __init__(self, exchange: LocalHttpExchange, wait: float | None, accept: str) -> None:
        self._exchange = exchange
        self._expected = (wait, accept)

    @property
    def call_id(self) -> str:
        """The id of the call that it is about."""
        return self._exchange.where.partition("?")[0].rpartition("/")[2]

    def read(self) -> bytes:
        """The whole body."""
        with _translate_connection_errors(*self._expected):
            return self._exchange.read_body()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Server-sent events, each with its kind."""
        held = b""
        while piece := self._read_chunk():
            *whole, held = (held + piece).split(b"\n\n")
            for block in whole:
                fields = {name: value for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))}
                if b"data" in fields:  # a comment has none
                    yield fields.get(b"event", b"message").decode(), json.loads(fields[b"data"])

    def _read_chunk(self) -> bytes:
        with _translate_connection_errors(*self._expected):
            return self._exchange.read_chunk()


@contextmanager
def _translate_connection_errors(wait: float | None, accept: str) -> Generator[None, None, None]:
    """Around everything that is said to the daemon or heard from it, and around nothing else."""
    from paddock.cli.client.local_http import MalformedHttpResponse, SocketNotAccepting

    try:
        yield
    except SocketNotAccepting:
        raise _daemon_unresponsive_error() from None
    except TimeoutError:
        code = "call.timeout" if accept == EVENT_STREAM_TYPE else "daemon.timeout"
        raise TimedOut(f"no answer within {wait:g} s", code=code, hint="what it was asked is cancelled") from None
    except (OSError, MalformedHttpResponse) as error:
        raise HostError(
            "the connection to the daemon was lost", code="daemon.lost", hint="start it again: paddock serve"
        ) from error


def encode_body(body: Any) -> bytes:
    """A body as it is sent: characters as themselves, which takes less room than escapes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def running_daemon(directories: Directories | None = None, *, tenant: str = DEFAULT_TENANT) -> DaemonClient | None:
    """The daemon of this home, if one listens.

    Raises:
        Busy: one listens and takes nobody in.
        Denied: the home is somebody else's.
        HostError: the system does not let us look.
    """
    path = socket_path(directories or find_directories(os.environ, Path.home()))
    try:
        if not path.is_socket():
            return None  # the usual case, told before anything is imported for it
        from paddock.cli.client.local_http import SocketNotAccepting, connect

        try:
            connect(path).close()
        except SocketNotAccepting:
            raise _daemon_unresponsive_error() from None
    except OSError as error:
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None  # what a killed daemon left
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _socket_owner_error(path) from None
        raise HostError(f"cannot reach the daemon: {error.strerror}", code="daemon.unreachable") from error
    return DaemonClient(path, tenant)


def require_daemon(for_what: str, tenant: str = DEFAULT_TENANT) -> DaemonClient:
    """The daemon of this home, for what no command can do alone; asked about a tenant.

    Raises:
        Unreachable: none runs.
        PaddockError: see `running_daemon`.
    """
    daemon = running_daemon(tenant=tenant)
    if daemon is None:
        raise Unreachable(
            f"no daemon runs, and {for_what} needs one",
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
    whose = f"belongs to {owner}" if owner else "belongs to somebody else"
    return Denied(
        f"the daemon's socket {path} {whose}",
        code="daemon.not_yours",
        hint=f"run the command as {owner or 'that user'}, or set PADDOCK_HOME to a directory of your own",
    )


def path_segment(name: str) -> str:
    """A name as one part of a path."""
    from urllib.parse import quote

    return quote(name, safe="")


def error_from_problem(body: Any, status: int) -> PaddockError:
    """The error that a problem body was made from: the same code, words and exit code."""
    told = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    message, hint = str(told.get("message") or told.get("detail") or f"HTTP {status}"), str(told.get("hint") or "")
    code, details = str(told.get("code") or "daemon.unclear"), cast("dict[str, Any]", told.get("details") or {})
    try:
        category = Category(told.get("category", "internal"))
    except ValueError:
        category = Category.INTERNAL
    if category is Category.VALIDATION and (errors := told.get("errors")):
        return Invalid(message, [_parse_problem(one) for one in errors], code=code, hint=hint, details=details)
    kind = _RETRYABLE_ERROR_TYPES.get(category) if told.get("retryable") else None
    error = (kind or _ERROR_TYPES[category])(message, code=code, hint=hint, details=details)
    if told.get("retryable") is False:
        error.__dict__["retryable"] = False  # as of what took too long and may have happened
    return error


def _parse_problem(told: dict[str, Any]) -> Problem:
    return Problem(
        str(told.get("path", "")),
        str(told.get("message", "")),
        str(told.get("hint", "")),
        str(told.get("code", "invalid")),
        told.get("line"),
    )


def _parse_json(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
