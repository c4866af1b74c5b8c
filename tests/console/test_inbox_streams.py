"""Many open inboxes of one reader share the work of a new list."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from paddock import Config, open_host
from paddock.console.inbox_changes import InboxChanges
from paddock.console.pages.inbox.inbox import InboxPages
from paddock.host.identity.caller import local_principal
from paddock.host.inbox.inbox import InboxPage, InboxService
from paddock.host.inbox.source import InboxQuery
from paddock.web.security.authenticate import Caller

OPEN = 50


async def first_list(response: StreamingResponse) -> bytes:
    async for part in cast("AsyncIterable[bytes]", response.body_iterator):
        if b"data:" in part:
            return part
    raise AssertionError("the stream ended without a list")


async def test_fifty_open_inboxes_of_one_reader_cost_little_more_than_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = InboxService.page
    queries: list[InboxQuery] = []

    async def counted(self: InboxService, query: InboxQuery) -> InboxPage:
        queries.append(query)
        return await read(self, query)

    monkeypatch.setattr(InboxService, "page", counted)
    async with open_host(Config(home=tmp_path / "home", environ={})) as host:
        pages = InboxPages(host, asyncio.Event(), InboxChanges(host))
        state: dict[str, Any] = {"caller": Caller(local_principal("olga"), "olga", "socket")}
        scope = {"type": "http", "method": "GET", "path": "/inbox/live", "query_string": b"", "headers": []}
        streams = [
            cast("StreamingResponse", await pages.stream(Request({**scope, "state": state}))) for _ in range(OPEN)
        ]
        lists = await asyncio.gather(*map(first_list, streams))

    assert len(lists) == OPEN and len(set(lists)) == 1
    assert len(queries) <= OPEN / 2  # each list takes two
