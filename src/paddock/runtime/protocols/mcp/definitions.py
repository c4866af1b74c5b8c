"""Everything that a server says it offers, page by page, as it says it. Lenient: what is usable is judged later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import orjson

from paddock.rpc.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError
from paddock.runtime.protocol_adapter import Definition, DefinitionList, OutgoingMessage

MAX_PAGES: Final = 100
MAX_ENTRIES: Final = 1_000
"""Of each kind; the rest is not looked at."""
MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
"""Of all kinds together."""

SendRequest: TypeAlias = Callable[[OutgoingMessage], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _ListMethod:
    kind: str
    method: str
    key: str  # where the entries stand in an answer
    capability: str  # what a server declares that has such a list
    name: str  # the field that tells one entry from another


_LIST_METHODS: Final = (
    _ListMethod("tool", "tools/list", "tools", "tools", "name"),
    _ListMethod("prompt", "prompts/list", "prompts", "prompts", "name"),
    _ListMethod("resource", "resources/list", "resources", "resources", "uri"),
    _ListMethod("resource_template", "resources/templates/list", "resourceTemplates", "resources", "uriTemplate"),
)


async def fetch_definitions(
    ask: SendRequest, capabilities: Mapping[str, Any], instructions: str | None
) -> DefinitionList:
    """Its instructions, tools, prompts, resources and resource templates, each list in the server's order.

    A server that lists its tools wrongly or not at all is not understood; other lists may be missing.

    Raises:
        RpcFault, TimeoutError, PeerLost: its tools could not be learnt.
    """
    found = [Definition("instructions", "", instructions)] if instructions is not None else []
    room, left_out = MAX_TOTAL_BYTES, 0
    for one in _LIST_METHODS:
        tools = one.kind == "tool"
        if not tools and one.capability not in capabilities:
            continue
        try:
            entries, unread = await _fetch_entries(ask, one, room)
        except RpcError as fault:
            if tools and fault.code != METHOD_NOT_FOUND and one.capability in capabilities:
                raise
            continue
        room -= sum(size for _, size in entries)
        left_out += unread
        found += [Definition(one.kind, _entry_name(raw, one.name), raw) for raw, _ in entries]
    return DefinitionList.truncated(found, left_out)


async def _fetch_entries(ask: SendRequest, one: _ListMethod, room: int) -> tuple[list[tuple[Any, int]], int]:
    """The entries of one list, each with its size, and how many more there are at least."""
    found: list[tuple[Any, int]] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page: Any = await ask(OutgoingMessage(one.method, {} if cursor is None else {"cursor": cursor}))
        entries: Any = cast("dict[str, Any]", page).get(one.key) if isinstance(page, dict) else None
        if not isinstance(entries, list):
            raise RpcError(INTERNAL_ERROR, f"its answer to {one.method} has no list of {one.key}")
        page_of = cast("list[Any]", entries)
        for number, raw in enumerate(page_of):
            size = len(orjson.dumps(raw))
            room -= size
            if room < 0 or len(found) >= MAX_ENTRIES:
                return found, len(page_of) - number
            found.append((raw, size))
        following: Any = cast("dict[str, Any]", page).get("nextCursor")
        if not isinstance(following, str) or not following or following in seen:
            return found, 0
        seen.add(following)
        cursor = following
    return found, 1  # one page more, at the least


def _entry_name(raw: Any, field: str) -> str:
    name: Any = cast("dict[str, Any]", raw).get(field) if isinstance(raw, dict) else None
    return name if isinstance(name, str) else ""
