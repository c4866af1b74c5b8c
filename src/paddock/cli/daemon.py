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
from paddock.http.local_address import socket_path

if TYPE_CHECKING:
    from paddock.cli.local_http import Exchange

PREFIX = "/api/v1"
EVENTS = "text/event-stream"
PATIENCE = 60.0  # seconds for an answer that takes no plugin's time

_ERRORS: Mapping[Category, type[PaddockError]] = {
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
_RETRYABLE: Mapping[Category, type[PaddockError]] = {
    Category.DEPENDENCY: StoreUnavailable,
    Category.PLUGIN: Unavailable,
}


class DaemonClient:
    """Asks the daemon. Leaving early, by Ctrl-C for instance, hangs up, and that cancels a call that is waited for."""

    def __init__(self, path: Path, tenant: str = DEFAULT_TENANT) -> None:
        self.path = path
        self._tenant = tenant

    def get(self, path: str, *, wait: float | None = PATIENCE) -> Any:
        """What a GET answers.

        Raises:
            PaddockError: what the daemon says went wrong, or that it is gone.
        """
        with self._asked("GET", path, None, wait) as answer:
            return _value(answer.read())

    def post(self, path: str, body: Any = None, *, wait: float | None = PATIENCE, acting_as: str | None = None) -> Any:
        """What a POST answers; see `get`. `acting_as` is in whose name, as in `user:ann`."""
        with self._asked("POST", path, body, wait, acting_as=acting_as) as answer:
            return _value(answer.read())

    def put(self, path: str, body: Any, *, wait: float | None = PATIENCE) -> Any:
        """What a PUT answers; see `get`."""
        with self._asked("PUT", path, body, wait) as answer:
            return _value(answer.read())

    @contextmanager
    def events(
        self, path: str, *, wait: float | None = None
    ) -> Generator[Iterator[tuple[str, dict[str, Any]]], None, None]:
        """The server-sent events at a path, each with its kind, until the daemon ends them or the block does.

        Raises:
            TimedOut: neither did within so many seconds.
        """
        with self._asked("GET", path, None, wait) as answer:
            yield answer.events()

    @contextmanager
    def called(
        self, body: dict[str, Any], seconds: float | None, acting_as: str | None = None
    ) -> Generator[tuple[str, Iterator[tuple[str, dict[str, Any]]]], None, None]:
        """Make a call: its id, and what it tells to its end; leaving the block before that cancels it.

        Raises:
            TimedOut: it did not end within these seconds.
        """
        with self._asked("POST", "/calls", body, seconds, accept=EVENTS, acting_as=acting_as) as answer:
            yield answer.about, answer.events()

    @contextmanager
    def _asked(
        self,
        method: str,
        path: str,
        body: Any,
        wait: float | None,
        accept: str = "application/json",
        acting_as: str | None = None,
    ) -> Generator[_Answer, None, None]:
        from paddock.cli.local_http import Exchange

        sent = encoded(body) if body is not None else None
        with _troubles_told(wait, accept):
            exchange = Exchange(self.path, wait)
        with exchange:
            answer = _Answer(exchange, wait, accept)
            with _troubles_told(wait, accept):
                exchange.ask(method, PREFIX + self._of_tenant(path), sent, accept, acting_as)
            if exchange.status >= 400:
                raise error_from(_value(answer.read()), exchange.status)
            yield answer

    def _of_tenant(self, path: str) -> str:
        """The same address for another tenant than the default one, where this asks about that."""
        if self._tenant == DEFAULT_TENANT:
            return path
        return f"{path}{'&' if '?' in path else '?'}tenant={part(self._tenant)}"


class _Answer:
    """What comes back. Only its own troubles are the daemon's: whoever reads it may fail at writing elsewhere."""

    def __init__(self, exchange: Exchange, wait: float | None, accept: str) -> None:
        self._exchange = exchange
        self._expected = (wait, accept)

    @property
    def about(self) -> str:
        """The id of the call that it is about."""
        return self._exchange.where.partition("?")[0].rpartition("/")[2]

    def read(self) -> bytes:
        """The whole body."""
        with _troubles_told(*self._expected):
            return self._exchange.read()

    def events(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Server-sent events, each with its kind."""
        held = b""
        while piece := self._chunk():
            *whole, held = (held + piece).split(b"\n\n")
            for block in whole:
                fields = {name: value for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))}
                if b"data" in fields:  # a comment has none
                    yield fields.get(b"event", b"message").decode(), json.loads(fields[b"data"])

    def _chunk(self) -> bytes:
        with _troubles_told(*self._expected):
            return self._exchange.chunk()


@contextmanager
def _troubles_told(wait: float | None, accept: str) -> Generator[None, None, None]:
    """Around everything that is said to the daemon or heard from it, and around nothing else."""
    from paddock.cli.local_http import BadAnswer, NoAnswer

    try:
        yield
    except NoAnswer:
        raise _silent() from None
    except TimeoutError:
        code = "call.timeout" if accept == EVENTS else "daemon.timeout"
        raise TimedOut(f"no answer within {wait:g} s", code=code, hint="what it was asked is cancelled") from None
    except (OSError, BadAnswer) as error:
        raise HostError(
            "the connection to the daemon was lost", code="daemon.lost", hint="start it again: paddock serve"
        ) from error


def encoded(body: Any) -> bytes:
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
        from paddock.cli.local_http import NoAnswer, connect

        try:
            connect(path).close()
        except NoAnswer:
            raise _silent() from None
    except OSError as error:
        if error.errno in (errno.ECONNREFUSED, errno.ENOENT):
            return None  # what a killed daemon left
        if error.errno in (errno.EACCES, errno.EPERM):
            raise _not_ours(path) from None
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


def _silent() -> Busy:
    return Busy(
        "the daemon does not answer", code="daemon.silent", hint="it is very busy or stopped; try again, or restart it"
    )


def _not_ours(path: Path) -> Denied:
    from paddock.http.local_address import owner_of

    owner = owner_of(path)
    whose = f"belongs to {owner}" if owner else "belongs to somebody else"
    return Denied(
        f"the daemon's socket {path} {whose}",
        code="daemon.not_yours",
        hint=f"run the command as {owner or 'that user'}, or set PADDOCK_HOME to a directory of your own",
    )


def part(name: str) -> str:
    """A name as one part of a path."""
    from urllib.parse import quote

    return quote(name, safe="")


def error_from(body: Any, status: int) -> PaddockError:
    """The error that a problem body was made from: the same code, words and exit code."""
    told = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    message, hint = str(told.get("message") or told.get("detail") or f"HTTP {status}"), str(told.get("hint") or "")
    code, details = str(told.get("code") or "daemon.unclear"), cast("dict[str, Any]", told.get("details") or {})
    try:
        category = Category(told.get("category", "internal"))
    except ValueError:
        category = Category.INTERNAL
    if category is Category.VALIDATION and (errors := told.get("errors")):
        return Invalid(message, [_problem(one) for one in errors], code=code, hint=hint, details=details)
    kind = _RETRYABLE.get(category) if told.get("retryable") else None
    error = (kind or _ERRORS[category])(message, code=code, hint=hint, details=details)
    if told.get("retryable") is False:
        error.__dict__["retryable"] = False  # as of what took too long and may have happened
    return error


def _problem(told: dict[str, Any]) -> Problem:
    return Problem(
        str(told.get("path", "")),
        str(told.get("message", "")),
        str(told.get("hint", "")),
        str(told.get("code", "invalid")),
        told.get("line"),
    )


def _value(raw: bytes) -> Any:
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
