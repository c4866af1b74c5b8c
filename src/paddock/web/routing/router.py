"""Routing by a trie over path segments: lookup time depends on the path's length, not on the number of routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from msgspec import Struct, field
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from paddock.web.routing.route import Access

PathParams: TypeAlias = dict[str, str]


class Route(Protocol):
    """A method and path with its handler: an API route or a console page."""

    @property
    def method(self) -> str: ...

    @property
    def prefix(self) -> str: ...

    @property
    def path(self) -> str: ...

    @property
    def access(self) -> Access: ...

    async def __call__(self, request: Request, /) -> Response: ...


class _Node(Struct):
    """A node of the routing trie: literal children, a parameter child, and a catch-all."""

    routes_by_method: dict[str, Route] = field(default_factory=dict[str, Route])  # routes that end here
    literals: dict[str, _Node] = field(default_factory=dict[str, "_Node"])
    param_child: tuple[str, _Node] | None = None  # parameter name and child
    catch_all: tuple[str, _Node] | None = None

    def child(self, part: str) -> _Node:
        """Return the child for one segment of a route's path, creating it: `plugins`, `{name}` or `{name:path}`."""
        if not part.startswith("{"):
            return self.literals.setdefault(part, _Node())
        name, _, kind = part.strip("{}").partition(":")
        child = (self.catch_all if kind else self.param_child) or (name, _Node())
        if child[0] != name:
            raise ValueError(f"{part} stands where another row has {{{child[0]}}}")
        if kind:
            self.catch_all = child
        else:
            self.param_child = child
        return child[1]

    def find(
        self, parts: Sequence[str], index: int, params: PathParams, matches: list[tuple[_Node, PathParams]]
    ) -> None:
        """Collect the matches below this node, most specific first."""
        if index == len(parts):
            if self.routes_by_method:
                matches.append((self, params))
            return
        part = parts[index]
        if (literal := self.literals.get(part)) is not None:
            literal.find(parts, index + 1, params, matches)
        if self.param_child is not None and part:
            name, child = self.param_child
            child.find(parts, index + 1, {**params, name: part}, matches)
        if self.catch_all is not None:
            name, child = self.catch_all
            matches.append((child, {**params, name: "/".join(parts[index:])}))


class Router:
    """Finds the route of a request.

    Raises:
        ValueError: two routes are equal, or name the same path parameter differently.
    """

    def __init__(self, routes: Iterable[Route]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for part in (route.prefix + route.path).split("/"):
                node = node.child(part)
            if node.routes_by_method.setdefault(route.method, route) is not route:
                raise ValueError(f"{route.method} {route.prefix}{route.path} is there twice")

    def find_route(self, scope: Scope) -> Route:
        """Return the route for a request and set `scope["path_params"]`.

        Raises:
            HTTPException: 404 or 405.
        """
        method, matches = scope["method"], list[tuple[_Node, PathParams]]()
        self._root.find(scope["path"].split("/"), 0, {}, matches)
        for node, params in matches:
            route = node.routes_by_method.get("GET" if method == "HEAD" else method)
            if route is not None:
                scope["path_params"] = params
                return route
        if not matches:
            raise HTTPException(404)
        allowed = dict.fromkeys(method_name for node, _ in matches for method_name in node.routes_by_method)
        if "GET" in allowed:
            allowed["HEAD"] = None
        raise HTTPException(405, headers={"Allow": ", ".join(allowed)})


async def serve_route(route: Route, scope: Scope, receive: Receive, send: Send) -> None:
    """Run a route for a request and send its response."""
    response = await route(Request(scope, receive, send))
    await response(scope, receive, send)
