"""The part of a page that changes while somebody looks at it, as server-sent events.

A page names where they come from as `hx-sse:connect`, and `over` as `hx-sse:close`: an event without a name takes the
place of what the part holds, and after `over` nobody asks again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PagePart:
    """A piece of a page."""

    html: str

    def encode(self) -> bytes:
        lines = "".join(f"data: {line}\n" for line in self.html.splitlines())
        return f"{lines}\n".encode()


class _Over:
    """Nothing of it changes any more."""

    def encode(self) -> bytes:
        return b"event: over\ndata: over\n\n"


OVER: Final = _Over()
