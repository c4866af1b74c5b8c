"""Which headers go out, which survive a redirect to somebody else, and which come back. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, TypeAlias, cast

from paddock import __version__
from paddock.capabilities.methods import SAFE_HTTP_METHODS
from paddock.capabilities.params import invalid_param
from paddock.core.errors import CallerError
from paddock.net.http_client import check_headers

Headers: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class CallMark:
    """By what the outside can tell calls, and runs of one call, apart.

    Attributes:
        call: The id of the call.
        fence: Which run of it this is; whoever has seen a higher one can refuse this.
        key: The same in each run of the call, and in no other call. Sent as part of a hash alone.
    """

    call: str | None = None
    fence: int | None = None
    key: str | None = None


IDEMPOTENCY_HEADER = "idempotency-key"
MAX_HEADERS = 100
MAX_HEADERS_BYTES = 32 * 1024

# The host's to say: how the bytes travel, and for whom.
_HOST_CONTROLLED = frozenset(
    "host content-length transfer-encoding connection keep-alive te trailer upgrade expect accept-encoding".split()  # noqa: SIM905
)
# With these a request that reads could be made one that changes something.
_METHOD_OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
# All that somebody else is told after a redirect: any other header may be a credential.
_CROSS_ORIGIN_SAFE = frozenset({"accept", "accept-language", "content-type", "range", "user-agent"})
_HIDDEN_FROM_PLUGIN = (_HOST_CONTROLLED - {"content-length"}) | {
    "set-cookie",
    "set-cookie2",
    "alt-svc",
    "clear-site-data",
}


def read_headers(value: Any) -> Headers:
    """The headers that a plugin wants to send.

    Raises:
        CallerError: they are no object of texts, too many, or the host's own to set.
    """
    given = cast("dict[str, str]", value)
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in given.values()):  # pyright: ignore
        raise invalid_param("headers", "must be an object of texts")
    check_header_count(given)
    if sum(len(name) + len(text) for name, text in given.items()) > MAX_HEADERS_BYTES:
        raise invalid_param("headers", f"are longer than {MAX_HEADERS_BYTES} characters in all")
    try:
        check_headers(given)
    except ValueError as error:
        raise invalid_param("headers", f"cannot be sent: {error}") from None
    for name in given:
        _check_name(name.lower().replace("_", "-"))  # many servers take the two for one
    return tuple((name, text.strip()) for name, text in given.items())


def check_header_count(given: Mapping[str, Any]) -> None:
    """See that they are not too many.

    Raises:
        CallerError: they are.
    """
    if len(given) > MAX_HEADERS:
        raise invalid_param("headers", f"are more than {MAX_HEADERS}")


def _check_name(name: str) -> None:
    if name in _HOST_CONTROLLED or name.startswith(("proxy-", "paddock-")):
        raise CallerError(f"the header {name} is set by the host", code="http.header_refused", hint="leave it out")
    if name in _METHOD_OVERRIDES:
        raise CallerError(
            f"the header {name} would make the request another one", code="http.header_refused", hint="say it as method"
        )


def header_value(headers: Headers, name: str) -> str | None:
    """The value of a header, by its name in lower case."""
    return next((text for given, text in headers if given.lower() == name), None)


def cross_origin_headers(headers: Headers) -> Headers:
    """What is left of the headers for another place than the one that they were meant for."""
    return tuple((name, text) for name, text in headers if name.lower() in _CROSS_ORIGIN_SAFE)


def without_content(headers: Headers) -> Headers:
    """The headers for a request that has lost its body."""
    return tuple(
        (name, text) for name, text in headers if not name.lower().startswith(("content-", IDEMPOTENCY_HEADER))
    )


def add_call_headers(headers: Headers, method: str, url: str, body: bytes | None, mark: CallMark) -> Headers:
    """The headers with what the host adds: for which call it is, and a key by which a repeated request is known.

    The key is the call's own and a hash of what is sent, so that two different requests of one call are not taken for
    one. A plugin that knows better sets its own.
    """
    added: list[tuple[str, str]] = []
    if mark.call is not None:
        added.append(("Paddock-Call", mark.call))
    if mark.fence is not None:
        added.append(("Paddock-Fence", str(mark.fence)))
    if mark.key is not None and method not in SAFE_HTTP_METHODS and header_value(headers, IDEMPOTENCY_HEADER) is None:
        sent = sha256("\0".join((mark.key, method, url, "")).encode() + (body or b"")).hexdigest()
        added.append(("Idempotency-Key", sent[:48]))
    return (*headers, *added)


def wire_headers(headers: Headers) -> Sequence[tuple[str, str]]:
    """What is sent: each connection carries one request, and nothing is compressed, so that a bound is a bound."""
    own = [("Connection", "close"), ("Accept-Encoding", "identity")]
    if header_value(headers, "user-agent") is None:
        own.append(("User-Agent", f"paddock/{__version__}"))
    return [*headers, *own]


def visible_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """What a plugin sees of an answer's headers: nothing that is meant for a browser, or for the connection."""
    return {
        name: text
        for name, text in headers.items()
        if name not in _HIDDEN_FROM_PLUGIN and not name.startswith("proxy-")
    }
