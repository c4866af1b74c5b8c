"""Header rules: which are sent, which survive a cross-origin redirect, which the plugin sees. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, TypeAlias, cast

from msgspec import Struct

from paddock import __version__
from paddock.capabilities.methods import SAFE_HTTP_METHODS
from paddock.capabilities.params import invalid_param
from paddock.core.errors import CallerError
from paddock.net.http_client import check_headers

Headers: TypeAlias = tuple[tuple[str, str], ...]


class CallMark(Struct, frozen=True):
    """Identifies a call, and its runs, to the recipient of a request.

    Attributes:
        call: The id of the call.
        fence: Which run of the call this is; a recipient that has seen a higher one can refuse this.
        key: The same in each run of the call, and in no other call. Only sent as part of a hash.
    """

    call: str | None = None
    fence: int | None = None
    key: str | None = None


IDEMPOTENCY_HEADER = "idempotency-key"
MAX_HEADERS = 100
MAX_HEADERS_BYTES = 32 * 1024

# Set by the host only: framing of the message, and its recipient.
_HOST_CONTROLLED = frozenset(
    "host content-length transfer-encoding connection keep-alive te trailer upgrade expect accept-encoding".split()  # noqa: SIM905
)
# These could turn a safe request into one that changes something.
_METHOD_OVERRIDES = frozenset({"x-http-method-override", "x-http-method", "x-method-override"})
# The only headers sent to another origin after a redirect: any other may be a credential.
_CROSS_ORIGIN_SAFE = frozenset({"accept", "accept-language", "content-type", "range", "user-agent"})
_HIDDEN_FROM_PLUGIN = (_HOST_CONTROLLED - {"content-length"}) | {
    "set-cookie",
    "set-cookie2",
    "alt-svc",
    "clear-site-data",
}


def read_headers(value: Any) -> Headers:
    """Read the headers that a plugin wants to send.

    Raises:
        CallerError: they are not an object of texts, too many, or reserved for the host.
    """
    headers = cast("dict[str, str]", value)
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in headers.values()):  # pyright: ignore
        raise invalid_param("headers", "must be an object of texts")
    check_header_count(headers)
    if sum(len(name) + len(text) for name, text in headers.items()) > MAX_HEADERS_BYTES:
        raise invalid_param("headers", f"are longer than {MAX_HEADERS_BYTES} characters in all")
    try:
        check_headers(headers)
    except ValueError as error:
        raise invalid_param("headers", f"cannot be sent: {error}") from None
    for name in headers:
        _check_name(name.lower().replace("_", "-"))  # many servers treat the two as one
    return tuple((name, text.strip()) for name, text in headers.items())


def check_header_count(headers: Mapping[str, Any]) -> None:
    """Check the number of headers.

    Raises:
        CallerError: there are too many.
    """
    if len(headers) > MAX_HEADERS:
        raise invalid_param("headers", f"are more than {MAX_HEADERS}")


def _check_name(name: str) -> None:
    if name in _HOST_CONTROLLED or name.startswith(("proxy-", "paddock-")):
        raise CallerError(f"the header {name} is set by the host", code="http.header_refused", hint="leave it out")
    if name in _METHOD_OVERRIDES:
        raise CallerError(
            f"the header {name} would make the request another one", code="http.header_refused", hint="say it as method"
        )


def header_value(headers: Headers, name: str) -> str | None:
    """Return the value of a header, by its name in lower case."""
    return next((text for header, text in headers if header.lower() == name), None)


def cross_origin_headers(headers: Headers) -> Headers:
    """Return the headers that may be sent to another origin."""
    return tuple((name, text) for name, text in headers if name.lower() in _CROSS_ORIGIN_SAFE)


def without_content(headers: Headers) -> Headers:
    """Return the headers for a request without its body."""
    return tuple(
        (name, text) for name, text in headers if not name.lower().startswith(("content-", IDEMPOTENCY_HEADER))
    )


def add_call_headers(headers: Headers, method: str, url: str, body: bytes | None, mark: CallMark) -> Headers:
    """Add the host's headers: the call's id and fence, and an idempotency key.

    The key is a hash of the call's own key and the request, so that two different requests of one call differ. A key
    that the plugin sets itself takes precedence.
    """
    added: list[tuple[str, str]] = []
    if mark.call is not None:
        added.append(("Paddock-Call", mark.call))
    if mark.fence is not None:
        added.append(("Paddock-Fence", str(mark.fence)))
    if mark.key is not None and method not in SAFE_HTTP_METHODS and header_value(headers, IDEMPOTENCY_HEADER) is None:
        digest = sha256("\0".join((mark.key, method, url, "")).encode() + (body or b"")).hexdigest()
        added.append(("Idempotency-Key", digest[:48]))
    return (*headers, *added)


def wire_headers(headers: Headers) -> Sequence[tuple[str, str]]:
    """Return the headers as sent, with the host's own.

    Each connection carries one request, and nothing is compressed, so that size limits hold.
    """
    host_headers = [("Connection", "close"), ("Accept-Encoding", "identity")]
    if header_value(headers, "user-agent") is None:
        host_headers.append(("User-Agent", f"paddock/{__version__}"))
    return [*headers, *host_headers]


def visible_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the response headers that a plugin sees: none that are for a browser or for the connection."""
    return {
        name: text
        for name, text in headers.items()
        if name not in _HIDDEN_FROM_PLUGIN and not name.startswith("proxy-")
    }
