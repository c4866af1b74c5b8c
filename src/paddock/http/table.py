"""Which row answers a request: found part by part of its address, in as many steps as that has, however many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paddock.http.endpoint import Who

Params: TypeAlias = dict[str, str]


class Row(Protocol):
    """What is answered at one address to one verb: of the API, or a page."""

    @property
    def method(self) -> str: ...

    @property
    def prefix(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def who(self) -> Who: ...

    async def __call__(self, request: Request, /) -> Response: ...


@dataclass(slots=True)
class _Place:
    """Where an address can go on: with a word, with any part, or with all that is left of it."""

    rows: dict[str, Row] = field(default_factory=dict[str, Row])  # by verb, of those that end here
    words: dict[str, _Place] = field(default_factory=dict[str, "_Place"])
    any_part: tuple[str, _Place] | None = None  # with the name that the part goes by
    the_rest: tuple[str, _Place] | None = None

    def below(self, part: str) -> _Place:
        """The place behind one part of a row's path: `plugins`, `{name}` or `{name:path}`."""
        if not part.startswith("{"):
            return self.words.setdefault(part, _Place())
        name, _, kind = part.strip("{}").partition(":")
        place = (self.the_rest if kind else self.any_part) or (name, _Place())
        if place[0] != name:
            raise ValueError(f"{part} stands where another row has {{{place[0]}}}")
        if kind:
            self.the_rest = place
        else:
            self.any_part = place
        return place[1]

    def find(self, parts: Sequence[str], at: int, params: Params, found: list[tuple[_Place, Params]]) -> None:
        """The places that an address leads to from here, the one that says most of it first."""
        if at == len(parts):
            if self.rows:
                found.append((self, params))
            return
        part = parts[at]
        if (known := self.words.get(part)) is not None:
            known.find(parts, at + 1, params, found)
        if self.any_part is not None and part:
            name, place = self.any_part
            place.find(parts, at + 1, {**params, name: part}, found)
        if self.the_rest is not None:
            name, place = self.the_rest
            found.append((place, {**params, name: "/".join(parts[at:])}))


class Table:
    """Finds rows.

    Raises:
        ValueError: two rows are the same, or name a part of one address otherwise.
    """

    def __init__(self, rows: Iterable[Row]) -> None:
        self._root = _Place()
        for row in rows:
            place = self._root
            for part in (row.prefix + row.path).split("/"):
                place = place.below(part)
            if place.rows.setdefault(row.method, row) is not row:
                raise ValueError(f"{row.method} {row.prefix}{row.path} is there twice")

    def row_for(self, scope: Scope) -> Row:
        """The row that a request is for; what stands in its address is kept for it as `path_params`.

        Raises:
            HTTPException: 404 or 405.
        """
        method, found = scope["method"], list[tuple[_Place, Params]]()
        self._root.find(scope["path"].split("/"), 0, {}, found)
        for place, params in found:
            row = place.rows.get("GET" if method == "HEAD" else method)
            if row is not None:
                scope["path_params"] = params
                return row
        if not found:
            raise HTTPException(404)
        allowed = dict.fromkeys(verb for place, _ in found for verb in place.rows)
        if "GET" in allowed:
            allowed["HEAD"] = None
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})


async def answer_with(row: Row, scope: Scope, receive: Receive, send: Send) -> None:
    """Have a row answer a request that is for it."""
    response = await row(Request(scope, receive, send))
    await response(scope, receive, send)
