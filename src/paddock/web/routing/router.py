"""Which row answers a request: found part by part of its address, in as many steps as that has, however many rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paddock.web.routing.route import Access

PathParams: TypeAlias = dict[str, str]


class Route(Protocol):
    """What is answered at one address to one verb: of the API, or a page."""

    @property
    def method(self) -> str: ...

    @property
    def prefix(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def access(self) -> Access: ...

    async def __call__(self, request: Request, /) -> Response: ...


@dataclass(slots=True)
class _Node:
    """Where an address can go on: with a word, with any part, or with all that is left of it."""

    routes_by_method: dict[str, Route] = field(default_factory=dict[str, Route])  # by verb, of those that end here
    literals: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    param_child: tuple[str, _Node] | None = None  # with the name that the part goes by
    catch_all: tuple[str, _Node] | None = None

    def child(self, part: str) -> _Node:
        """The place behind one part of a row's path: `plugins`, `{name}` or `{name:path}`."""
        if not part.startswith("{"):
            return self.literals.setdefault(part, _Node())
        name, _, kind = part.strip("{}").partition(":")
        place = (self.catch_all if kind else self.param_child) or (name, _Node())
        if place[0] != name:
            raise ValueError(f"{part} stands where another row has {{{place[0]}}}")
        if kind:
            self.catch_all = place
        else:
            self.param_child = place
        return place[1]

    def find(self, parts: Sequence[str], at: int, params: PathParams, found: list[tuple[_Node, PathParams]]) -> None:
        """The places that an address leads to from here, the one that says most of it first."""
        if at == len(parts):
            if self.routes_by_method:
                found.append((self, params))
            return
        part = parts[at]
        if (known := self.literals.get(part)) is not None:
            known.find(parts, at + 1, params, found)
        if self.param_child is not None and part:
            name, place = self.param_child
            place.find(parts, at + 1, {**params, name: part}, found)
        if self.catch_all is not None:
            name, place = self.catch_all
            found.append((place, {**params, name: "/".join(parts[at:])}))


class Router:
    """Finds rows.

    Raises:
        ValueError: two rows are the same, or name a part of one address otherwise.
    """

    def __init__(self, rows: Iterable[Route]) -> None:
        self._root = _Node()
        for row in rows:
            place = self._root
            for part in (row.prefix + row.path).split("/"):
                place = place.child(part)
            if place.routes_by_method.setdefault(row.method, row) is not row:
                raise ValueError(f"{row.method} {row.prefix}{row.path} is there twice")

    def find_route(self, scope: Scope) -> Route:
        """The row that a request is for; what stands in its address is kept for it as `path_params`.

        Raises:
            HTTPException: 404 or 405.
        """
        method, found = scope["method"], list[tuple[_Node, PathParams]]()
        self._root.find(scope["path"].split("/"), 0, {}, found)
        for place, params in found:
            row = place.routes_by_method.get("GET" if method == "HEAD" else method)
            if row is not None:
                scope["path_params"] = params
                return row
        if not found:
            raise HTTPException(404)
        allowed = dict.fromkeys(verb for place, _ in found for verb in place.routes_by_method)
        if "GET" in allowed:
            allowed["HEAD"] = None
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})


async def serve_route(row: Route, scope: Scope, receive: Receive, send: Send) -> None:
    """Have a row answer a request that is for it."""
    response = await row(Request(scope, receive, send))
    await response(scope, receive, send)
