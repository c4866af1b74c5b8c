"""The headers of a request, read once and found by name."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.types import Scope


class IncomingHeaders(dict[bytes, bytes]):
    """Headers by their names in small letters. What is given more than once is one list, as HTTP has it.

    Attributes:
        repeated: The names that are given more than once: most headers are no lists, and mean nothing then.
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
        """A header as text."""
        value = self.get(name)
        return None if value is None else value.decode("latin-1")


def request_headers(scope: Scope) -> IncomingHeaders:
    """The headers of this request."""
    state = scope["state"]
    head: IncomingHeaders | None = state.get("head")
    if head is None:
        # A list of our own: what comes behind the body is added to the one that is here.
        scope["headers"] = list(scope["headers"])
        head = state["head"] = IncomingHeaders(scope["headers"])
    return head
