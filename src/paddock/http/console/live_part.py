"""A part of a page that changes while somebody looks: sent whole, as an event that htmx puts in its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paddock.http.console.templates import render


@dataclass(frozen=True, slots=True)
class Part:
    """HTML as an event without a name: htmx swaps those in, and only tells scripts of named ones."""

    html: str

    def encode(self) -> bytes:
        return b"".join(b"data: %s\n" % line.encode() for line in self.html.splitlines()) + b"\n"


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing more will change: `console.js` keeps the browser from connecting again to what has ended."""

    def encode(self) -> bytes:
        return b"event: over\ndata: \n\n"


def part(template: str, values: Mapping[str, Any]) -> Part:
    """A template as such a part."""
    return Part(render(template, values))
