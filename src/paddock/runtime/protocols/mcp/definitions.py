"""Fetches a server's definitions, page by page and unmodified. Lenient: their validity is judged later."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias, cast

import orjson
from msgspec import Struct

from paddock.plugins.tool_pinning.normalize import Definition
from paddock.rpc.errors import INTERNAL_ERROR, METHOD_NOT_FOUND, RpcError
from paddock.runtime.protocol_adapter import DefinitionList, OutgoingMessage

MAX_PAGES: Final = 100
MAX_ENTRIES: Final = 1_000
"""Entries of each kind; further ones are omitted."""
MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
"""For all kinds together."""

SendRequest: TypeAlias = Callable[[OutgoingMessage], Awaitable[Any]]


class _ListMethod(Struct, frozen=True):
    kind: str
    method: str
    key: str  # the key of the entries in a response
    capability: str  # the capability that a server with such a list declares
    name: str  # the field that identifies an entry


_LIST_METHODS: Final = (
    _ListMethod("tool", "tools/list", "tools", "tools", "name"),
    _ListMethod("prompt", "prompts/list", "prompts", "prompts", "name"),
    _ListMethod("resource", "resources/list", "resources", "resources", "uri"),
    _ListMethod("resource_template", "resources/templates/list", "resourceTemplates", "resources", "uriTemplate"),
)


async def fetch_definitions(
    send_request: SendRequest, capabilities: Mapping[str, Any], instructions: str | None
) -> DefinitionList:
    """Fetch instructions, tools, prompts, resources and resource templates, each list in the server's order.

    A server whose tool list is malformed or missing is rejected; other lists may be missing.

    Raises:
        RpcError, TimeoutError, PeerLost: the tools could not be listed.
    """
    definitions = [Definition("instructions", "", instructions)] if instructions is not None else []
    bytes_left, omitted_count = MAX_TOTAL_BYTES, 0
    for listing in _LIST_METHODS:
        is_tools = listing.kind == "tool"
        if not is_tools and listing.capability not in capabilities:
            continue
        try:
            entries, omitted = await _fetch_entries(send_request, listing, bytes_left)
        except RpcError as rpc_error:
            if is_tools and rpc_error.code != METHOD_NOT_FOUND and listing.capability in capabilities:
                raise
            continue
        bytes_left -= sum(size for _, size in entries)
        omitted_count += omitted
        definitions += [Definition(listing.kind, _entry_name(raw, listing.name), raw) for raw, _ in entries]
    return DefinitionList.truncated(definitions, omitted_count)


async def _fetch_entries(
    send_request: SendRequest, listing: _ListMethod, bytes_left: int
) -> tuple[list[tuple[Any, int]], int]:
    """Return the entries of one list, each with its size, and how many more there are at least."""
    fetched: list[tuple[Any, int]] = []
    seen: set[str] = set()
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page: Any = await send_request(OutgoingMessage(listing.method, {} if cursor is None else {"cursor": cursor}))
        entries: Any = cast("dict[str, Any]", page).get(listing.key) if isinstance(page, dict) else None
        if not isinstance(entries, list):
            raise RpcError(INTERNAL_ERROR, f"its answer to {listing.method} has no list of {listing.key}")
        page_entries = cast("list[Any]", entries)
        for index, raw in enumerate(page_entries):
            size = len(orjson.dumps(raw))
            bytes_left -= size
            if bytes_left < 0 or len(fetched) >= MAX_ENTRIES:
                return fetched, len(page_entries) - index
            fetched.append((raw, size))
        next_cursor: Any = cast("dict[str, Any]", page).get("nextCursor")
        if not isinstance(next_cursor, str) or not next_cursor or next_cursor in seen:
            return fetched, 0
        seen.add(next_cursor)
        cursor = next_cursor
    return fetched, 1  # at least one more page


def _entry_name(raw: Any, field: str) -> str:
    name: Any = cast("dict[str, Any]", raw).get(field) if isinstance(raw, dict) else None
    return name if isinstance(name, str) else ""
