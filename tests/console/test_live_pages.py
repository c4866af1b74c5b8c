"""Open pages: those of equal readers share each update, and a page stays live only with the rights it began with."""

from __future__ import annotations

import asyncio
import http.client
import time
from collections.abc import AsyncGenerator, AsyncIterable, Generator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.requests import Request
from starlette.responses import StreamingResponse

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.mail import mail
from fixtures.people import key_of
from paddock import Config, open_host
from paddock.console.live_fragments import EncodedFragment, LiveFragments
from paddock.console.pages.inbox.inbox import InboxPages
from paddock.console.templates import HtmlFragment
from paddock.console.tenant_changes import TenantChanges
from paddock.core.errors import StoreUnavailable
from paddock.core.ids import DEFAULT_TENANT, Tenant
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
        pages = InboxPages(host, asyncio.Event(), TenantChanges(host.inbox.changes))
        state: dict[str, Any] = {"caller": Caller(local_principal("olga"), "olga", "socket")}
        scope = {"type": "http", "method": "GET", "path": "/inbox/live", "query_string": b"", "headers": []}
        streams = [
            cast("StreamingResponse", await pages.stream(Request({**scope, "state": state}))) for _ in range(OPEN)
        ]
        lists = await asyncio.gather(*map(first_list, streams))

    assert len(lists) == OPEN and len(set(lists)) == 1
    assert len(queries) <= 6  # each list takes two


class Board:
    """What pages show, who watches whether it changes, and how often it was rendered."""

    def __init__(self) -> None:
        self.shown: str | None = "first"
        self.error: Exception | None = None
        self.renders: list[str] = []
        self.watchers = 0
        self._changes: asyncio.Queue[None] = asyncio.Queue()
        self.live = LiveFragments[str](self.render, TenantChanges(self.watch), min_interval_s=0.0, max_age_s=PATIENCE)

    async def watch(self, tenant: Tenant) -> AsyncGenerator[None, None]:
        assert tenant == DEFAULT_TENANT
        self.watchers += 1
        try:
            while True:
                await self._changes.get()
                yield
        finally:
            self.watchers -= 1

    async def render(self, reader: str) -> HtmlFragment | None:
        self.renders.append(reader)
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return None if self.shown is None else HtmlFragment(f"{self.shown} for {reader}")

    def change(self, shown: str | None) -> None:
        self.shown = shown
        self._changes.put_nowait(None)

    def open(self, reader: str) -> AsyncGenerator[EncodedFragment, None]:
        return self.live.follow(reader, DEFAULT_TENANT)


async def told(page: AsyncGenerator[EncodedFragment, None]) -> str:
    async with asyncio.timeout(PATIENCE):
        return (await anext(page)).data.decode().removeprefix("data: ").strip()


async def test_pages_of_equal_readers_share_a_render_and_a_watcher_and_hear_of_changes_alone() -> None:
    board = Board()
    pages = [board.open("ann") for _ in range(20)]
    assert await asyncio.gather(*map(told, pages)) == ["first for ann"] * 20
    assert len(board.renders) <= 2
    other = board.open("bob")
    assert await told(other) == "first for bob"

    following = [asyncio.create_task(told(page)) for page in pages]
    board.change("first")  # nothing that they show
    board.change("second")
    assert await asyncio.gather(*following) == ["second for ann"] * 20
    assert board.watchers == 1
    late = board.open("ann")
    assert await told(late) == "second for ann"

    for page in (*pages, other, late):
        await page.aclose()
    assert board.watchers == 0  # with the last page its work ends


async def test_a_page_that_is_opened_again_is_never_sent_what_is_older_than_itself() -> None:
    board = Board()
    async with aclosing(board.open("ann")) as before:
        assert await told(before) == "first for ann"
        board.shown = "second"  # and nobody has heard of it
        async with aclosing(board.open("ann")) as page:
            assert await told(page) == "second for ann"


async def test_pages_outlast_a_store_that_is_away_and_end_with_what_they_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.console.live_fragments._RETRY_S", 0.0)
    board = Board()
    async with aclosing(board.open("ann")) as page, aclosing(board.open("bob")) as other:
        assert await told(page) == "first for ann"
        assert await told(other) == "first for bob"
        following = asyncio.create_task(told(page))
        board.error = StoreUnavailable("it is away")
        board.change("second")
        assert await following == "second for ann"

        board.change(None)
        with pytest.raises(StopAsyncIteration):
            await told(page)
        assert [one async for one in other if b"second" not in one.data] == []

    board.error = ZeroDivisionError()  # a bug of ours is not waited out
    with pytest.raises(ZeroDivisionError):
        await told(board.open("ann"))


# --- rights -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Daemon, str], None, None]:
    folder = tmp_path_factory.mktemp("live")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", mail(folder / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail", "--no-start")
    for name, role in (("ann", "member"), ("bob", "member"), ("olga", "operator"), ("omar", "operator")):
        paddock.quickly("user", "add", name, "--role", role)
    key = key_of(paddock, "ann")
    with daemon(paddock) as started:
        yield started, key


def asked(served: tuple[Daemon, str], to: str) -> str:
    started, key = served
    made = started.ask_tcp("POST", "/plugins/mail/call/send", {"to": to}, authorization=f"Bearer {key}")
    return made.body["approval"]["approval"]


def cookie_of(started: Daemon, who: str) -> str:
    url = started.paddock.quickly("login", "--user", who, "--json").json["url"]
    return started.ask_tcp("POST", f"//login/{url.rpartition('/')[2]}").headers["set-cookie"].partition(";")[0]


@contextmanager
def stream(started: Daemon, path: str, cookie: str) -> Generator[http.client.HTTPResponse, None, None]:
    """A live part of a page, as a browser with this cookie gets it."""
    connection = http.client.HTTPConnection(*started.tcp, timeout=PATIENCE)
    try:
        connection.request("GET", path, headers={"cookie": cookie})
        yield connection.getresponse()
    finally:
        connection.close()


def read_until(response: http.client.HTTPResponse, text: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while text not in (line := response.readline().decode()):
        assert line and time.monotonic() < deadline, f"there is no {text}"


@pytest.mark.parametrize("lost", ["the role", "the session"])
def test_nothing_more_reaches_the_pages_of_an_operator_who_is_none_any_more(
    served: tuple[Daemon, str], lost: str
) -> None:
    started, _ = served
    who = "olga" if lost == "the role" else "omar"
    cookie = cookie_of(started, who)
    paths = ("/inbox/live", "/home/live", "/activity/live", "/inbox-badge")
    with (
        stream(started, paths[0], cookie) as inbox,
        stream(started, paths[1], cookie) as home,
        stream(started, paths[2], cookie) as activity,
        stream(started, paths[3], cookie) as badge,
    ):
        first = asked(served, "bob")
        for page in (inbox, home):
            read_until(page, first)
        read_until(activity, "mail.send")
        read_until(badge, "badge")
        with stream(started, paths[2], cookie_of(started, "bob")) as of_a_member:
            read_until(of_a_member, "No calls fit")  # nor does a member share what an operator reads

        if lost == "the role":
            started.paddock.quickly("user", "role", "remove", who, "operator")
        else:
            started.paddock.quickly("user", "session", "remove", who)
        second = asked(served, "eve")

        for page in (inbox, home, activity, badge):
            rest = page.read().decode()  # until its end: each page that has news asks for its rights first
            assert second not in rest
    # What a browser gets when it comes back.
    with stream(started, paths[0], cookie) as again:
        if lost == "the session":
            assert again.status == 401
        else:
            read_until(again, "Nothing needs you")
