"""Request headers, parsed once per request."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Scope


class IncomingHeaders(dict[bytes, bytes]):
    """Header values by lower-case name; repeated headers are joined with commas, as HTTP defines.

    Attributes:
        repeated: Names that occur more than once. Most headers are not lists and are invalid then.
    """

    __slots__ = ("repeated",)

    def __init__(self, pairs: Sequence[tuple[bytes, bytes]]) -> None:
        super().__init__(pairs)
        self.repeated: frozenset[bytes] = frozenset()
        if len(self) != len(pairs):
            names = [name for name, _ in pairs]
            self.repeated = frozenset(name for name in self if names.count(name) > 1)
            for name in self.repeated:
                self[name] = b", ".join(value for other, value in pairs if other == name)

    def text(self, name: bytes) -> str | None:
        """Return a header decoded as text."""
        value = self.get(name)
        return None if value is None else value.decode("latin-1")


def request_headers(scope: Scope) -> IncomingHeaders:
    """Return the headers of this request, parsed at the first call."""
    state = scope["state"]
    headers: IncomingHeaders | None = state.get("head")
    if headers is None:
        # Copy the list: the server appends trailers to the original.
        scope["headers"] = list(scope["headers"])
        headers = state["head"] = IncomingHeaders(scope["headers"])
    return headers
