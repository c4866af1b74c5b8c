"""The client of the HTTP API that commands use: the same requests, to a running daemon or in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from paddock.cli.client.transport import ApiRequest, ApiResponse, ApiTransport
from paddock.cli.output.report import DEBUG_HINT
from paddock.config.directories import Directories, find_directories
from paddock.core.error_formats import error_from_problem
from paddock.core.errors import PaddockError, TimedOut, Unreachable
from paddock.core.ids import DEFAULT_TENANT
from paddock.web.daemon_address import socket_path

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping

T = TypeVar("T")

API_PREFIX = "/api/v1"
RESPONSE_TIMEOUT_S = 60.0  # for a response that does not wait for a plugin
_JSON_TYPE = "application/json"
_EVENT_STREAM_TYPE = "text/event-stream"

ServerEvents: TypeAlias = Iterator[tuple[str, dict[str, Any]]]
"""Server-sent events, each with its kind and its data."""


class ApiClient:
    """Sends requests as the local operator, in one tenant. Errors of the API are raised as they were raised there.

    Leaving a stream early, for instance by Ctrl-C, is a disconnect, and that cancels a call that is being waited for.
    """

    def __init__(self, transport: ApiTransport, tenant: str = DEFAULT_TENANT) -> None:
        self._transport = transport
        self._tenant = tenant

    @property
    def has_daemon(self) -> bool:
        """Whether a daemon serves the requests; without one, calls end with this command."""
        return self._transport.has_daemon

    def in_tenant(self, tenant: str) -> ApiClient:
        """Return a client of the same host in another tenant."""
        return ApiClient(self._transport, tenant)

    def get(self, path: str, *, timeout_s: float | None = RESPONSE_TIMEOUT_S, acting_as: str | None = None) -> Any:
        """Send a GET and return the response.

        Args:
            path: Below the API's prefix.
            timeout_s: How long the response may take.
            acting_as: The principal to act as, such as `user:ann`; without line breaks.

        Raises:
            PaddockError: the error that the API returned, or that it cannot be reached.
        """
        return self._request_json("GET", path, None, timeout_s, acting_as)

    def post(
        self, path: str, body: Any = None, *, timeout_s: float | None = RESPONSE_TIMEOUT_S, acting_as: str | None = None
    ) -> Any:
        """Send a POST and return the response; see `get`."""
        return self._request_json("POST", path, body, timeout_s, acting_as)

    def put(self, path: str, body: Any) -> Any:
        """Send a PUT and return the response; see `get`."""
        return self._request_json("PUT", path, body, RESPONSE_TIMEOUT_S, None)

    def delete(self, path: str) -> Any:
        """Send a DELETE and return the response; see `get`."""
        return self._request_json("DELETE", path, None, RESPONSE_TIMEOUT_S, None)

    @contextmanager
    def stream_events(self, path: str, *, timeout_s: float | None = None) -> Generator[ServerEvents, None, None]:
        """Iterate over the server-sent events at a path until the API or the block ends them.

        Raises:
            TimedOut: neither did within that many seconds.
        """
        with self._open("GET", path, None, timeout_s) as response:
            yield _parse_events(response)

    @contextmanager
    def stream_call(
        self, body: dict[str, Any], timeout_s: float | None, acting_as: str | None = None
    ) -> Generator[tuple[str, ServerEvents], None, None]:
        """Make a call; yield its id and its events. Leaving the block before its end cancels the call.

        Raises:
            TimedOut: `call.timeout`, it did not end within that many seconds.
        """
        with self.stream_post("/calls", body, timeout_s, acting_as) as call:
            yield call

    @contextmanager
    def stream_post(
        self, path: str, body: dict[str, Any], timeout_s: float | None = None, acting_as: str | None = None
    ) -> Generator[tuple[str, ServerEvents], None, None]:
        """Start something; yield its id and its events. Leaving the block before its end cancels it."""
        with self._open("POST", path, body, timeout_s, _EVENT_STREAM_TYPE, acting_as) as response:
            location = response.headers.get("content-location", "")
            yield location.partition("?")[0].rpartition("/")[2], _parse_events(response)

    @contextmanager
    def download(self, path: str) -> Generator[tuple[str, Iterator[bytes]], None, None]:
        """Yield the media type and the bytes at a path."""
        with self._open("GET", path, None, None) as response:
            yield response.headers.get("content-type", ""), iter(response.read_chunk, b"")

    def run(self, prompt: Coroutine[Any, Any, T]) -> T:
        """Run a prompt at the terminal; calls in progress go on meanwhile."""
        return self._transport.run(prompt)

    def _request_json(self, method: str, path: str, body: Any, timeout_s: float | None, acting_as: str | None) -> Any:
        with self._open(method, path, body, timeout_s, acting_as=acting_as) as response:
            return _read_json(response)

    @contextmanager
    def _open(
        self,
        method: str,
        path: str,
        body: Any,
        timeout_s: float | None,
        accept: str = _JSON_TYPE,
        acting_as: str | None = None,
    ) -> Generator[ApiResponse, None, None]:
        headers = {"Accept": accept}
        if acting_as is not None:
            headers["Paddock-As"] = acting_as
        encoded = None
        if body is not None:
            headers["Content-Type"] = _JSON_TYPE
            encoded = encode_body(body)
        target = API_PREFIX + self._with_tenant_param(path)
        request = ApiRequest(method, target, headers, encoded, timeout_s)
        with ExitStack() as stack:
            with _timeout_errors(request):
                opened = stack.enter_context(self._transport.open(request))
            response = _TimedResponse(opened, request)
            if response.status >= 400:
                error = error_from_problem(_read_json(response), response.status)
                if error.error_code == "internal" and not self.has_daemon:
                    error = error.with_remedy(hint=DEBUG_HINT)  # there is no daemon's log to look at
                raise error
            yield response

    def _with_tenant_param(self, path: str) -> str:
        """Add the tenant to the path unless it is the default tenant."""
        if self._tenant == DEFAULT_TENANT:
            return path
        return f"{path}{'&' if '?' in path else '?'}tenant={path_segment(self._tenant)}"


class _TimedResponse:
    """A response whose reads raise `TimedOut` when the request's time is over."""

    def __init__(self, response: ApiResponse, request: ApiRequest) -> None:
        self._response = response
        self._request = request

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> Mapping[str, str]:
        return self._response.headers

    def read_chunk(self) -> bytes:
        with _timeout_errors(self._request):
            return self._response.read_chunk()


@contextmanager
def _timeout_errors(request: ApiRequest) -> Generator[None, None, None]:
    """Turn a timeout into `TimedOut`; wraps only the exchange, not what the caller does with the response."""
    try:
        yield
    except TimeoutError:
        code = "call.timeout" if request.headers["Accept"] == _EVENT_STREAM_TYPE else "daemon.timeout"
        within = "" if request.timeout_s is None else f" within {request.timeout_s:g} s"
        raise TimedOut(f"no answer{within}", code=code, hint="what it was asked is cancelled") from None


@contextmanager
def open_client(tenant: str = DEFAULT_TENANT, *, asks_passphrase: bool = False) -> Generator[ApiClient, None, None]:
    """Yield a client of this home's daemon; without one, of a host that is open in this process while the block runs.

    Args:
        tenant: Whose records the requests are about.
        asks_passphrase: Whether a host in this process may ask at the terminal for the passphrase of the keys. It does
            so once a request needs a key that no setting opens; a daemon never asks.

    Raises:
        PaddockError: see `running_daemon`; or the host cannot be opened.
    """
    daemon = running_daemon(tenant=tenant)
    if daemon is not None:
        yield daemon
        return
    from paddock.cli.client.in_process import open_in_process

    with open_in_process(asks_passphrase=asks_passphrase) as transport:
        yield ApiClient(transport, tenant)


@contextmanager
def open_client_for_change(
    tenant: str = DEFAULT_TENANT, *, asks_passphrase: bool = False
) -> Generator[ApiClient, None, None]:
    """Yield a client for a change of installed plugins; see `open_client`.

    Without a daemon, what a killed command left is cleaned up first. A daemon does that itself.
    """
    with open_client(asks_passphrase=asks_passphrase) as client:
        if not client.has_daemon:
            client.post("/reconcile", timeout_s=None)
        yield client.in_tenant(tenant)


def running_daemon(directories: Directories | None = None, *, tenant: str = DEFAULT_TENANT) -> ApiClient | None:
    """Return the client of this home's daemon, if one is listening.

    Raises:
        PaddockError: it cannot be reached; see `find_daemon`.
    """
    path = socket_path(directories or find_directories(os.environ, Path.home()))
    with suppress(OSError):  # reported below
        if not path.is_socket():
            return None  # the common case, handled before any import
    from paddock.cli.client.unix_socket_transport import find_daemon

    transport = find_daemon(path)
    return None if transport is None else ApiClient(transport, tenant)


def require_daemon(purpose: str, tenant: str = DEFAULT_TENANT) -> ApiClient:
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


def encode_body(body: Any) -> bytes:
    """Encode a request body as compact JSON without ASCII escapes."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def path_segment(name: str) -> str:
    """Quote a name as one segment of a path."""
    from urllib.parse import quote

    return quote(name, safe="")


def named_path(collection: str, name: str, unknown_error: Callable[[], PaddockError]) -> str:
    """Return the path of something by its name.

    Raises:
        PaddockError: `unknown_error`, since nothing can have this name.
    """
    if not name or "/" in name or not name.isprintable():
        raise unknown_error()
    return f"{collection}/{path_segment(name)}"


def plugin_path(name: str) -> str:
    """Return the path of a plugin.

    Raises:
        NotFound: no plugin can have this name.
    """

    def unknown_error() -> PaddockError:
        from paddock.plugins.store.lookup import plugin_not_found_error

        return plugin_not_found_error(name)

    return named_path("/plugins", name, unknown_error)


def _parse_events(response: ApiResponse) -> ServerEvents:
    buffer = b""
    while chunk := response.read_chunk():
        *blocks, buffer = (buffer + chunk).split(b"\n\n")
        for block in blocks:
            fields = {name: value for name, _, value in (line.partition(b": ") for line in block.split(b"\n"))}
            if b"data" in fields:  # a comment has none
                yield fields.get(b"event", b"message").decode(), json.loads(fields[b"data"])


def _read_json(response: ApiResponse) -> Any:
    raw = b"".join(iter(response.read_chunk, b""))
    try:
        return json.loads(raw) if raw else None
    except ValueError:
        return None
