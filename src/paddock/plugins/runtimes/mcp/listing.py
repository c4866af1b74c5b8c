"""Everything that a server says it offers, page by page, as it says it. Lenient: what is usable is judged later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import orjson

from paddock.plugins.supervision.wire import Definition, Listing, Message
from paddock.rpc.faults import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcFault

MOST_PAGES: Final = 100
MOST_ENTRIES: Final = 1_000
"""Of each kind; the rest is not looked at."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of all kinds together."""

Ask: TypeAlias = Callable[[Message], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _List:
    kind: str
    method: str
    key: str  # where the entries stand in an answer
    capability: str  # what a server declares that has such a list
    name: str  # the field that tells one entry from another


_LISTS: Final = (
    _List("tool", "tools/list", "tools", "tools", "name"),
    _List("prompt", "prompts/list", "prompts", "prompts", "name"),
    _List("resource", "resources/list", "resources", "resources", "uri"),
    _List("resource_template", "resources/templates/list", "resourceTemplates", "resources", "uriTemplate"),
)


async def list_everything(ask: Ask, capabilities: Mapping[str, Any], instructions: str | None) -> Listing:
    """Its instructions, tools, prompts, resources and resource templates, each list in the server's order.

    A server that lists its tools wrongly or not at all is not understood; other lists may be missing.

    Raises:
        RpcFault, TimeoutError, PeerLost: its tools could not be learnt.
    """
    found = [Definition("instructions", "", instructions)] if instructions is not None else []
    room, left_out = MOST_BYTES, 0
    for one in _LISTS:
        tools = one.kind == "tool"
        if not tools and one.capability not in capabilities:
            continue
        try:
            entries, unread = await _entries(ask, one, room)
        except RpcFault as fault:
            if tools and fault.code != METHOD_NOT_FOUND and one.capability in capabilities:
                raise
            continue
        room -= sum(size for _, size in entries)
        left_out += unread
        found += [Definition(one.kind, _name(raw, one.name), raw) for raw, _ in entries]
    return Listing.cut(found, left_out)


async def _entries(ask: Ask, one: _List, room: int) -> tuple[list[tuple[Any, int]], int]:
    """The entries of one list, each with its size, and how many more there are at least."""
    found: list[tuple[Any, int]] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page: Any = await ask(Message(one.method, {} if cursor is None else {"cursor": cursor}))
        entries: Any = cast("dict[str, Any]", page).get(one.key) if isinstance(page, dict) else None
        if not isinstance(entries, list):
            raise RpcFault(INTERNAL_ERROR, f"its answer to {one.method} has no list of {one.key}")
        page_of = cast("list[Any]", entries)
        for number, raw in enumerate(page_of):
            size = len(orjson.dumps(raw))
            room -= size
            if room < 0 or len(found) >= MOST_ENTRIES:
                return found, len(page_of) - number
            found.append((raw, size))
        following: Any = cast("dict[str, Any]", page).get("nextCursor")
        if not isinstance(following, str) or not following or following in seen:
            return found, 0
        seen.add(following)
        cursor = following
    return found, 1  # one page more, at the least


def _name(raw: Any, field: str) -> str:
    name: Any = cast("dict[str, Any]", raw).get(field) if isinstance(raw, dict) else None
    return name if isinstance(name, str) else ""
