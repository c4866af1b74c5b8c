"""Events for whoever watches: over the API of a real daemon, and from the one reader behind it on each engine."""

from __future__ import annotations

import asyncio
import itertools
import json
import resource
import socket
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.webhooks.office import Office, office_at

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon, eventually
from paddock.core.ids import DEFAULT_TENANT
from paddock.store.database import Database
from paddock.webhooks.live_events import MAX_QUEUED_EVENTS, EventView, LiveEvents

EVERYTHING = EventView(("*",))


@pytest.fixture
async def office(database_address: str, tmp_path: Path) -> AsyncGenerator[Office, None]:
    async with office_at(database_address, tmp_path / "state") as opened:
        yield opened


@dataclass
class Counting:
    """The database, and how often it was read."""

    database: Database
    reads: int = 0

    async def read(self, unit: Any) -> Any:
        self.reads += 1
        return await self.database.read(unit)


def live_on(office: Office, database: Any = None) -> LiveEvents:
    async def landed() -> None: ...

    return LiveEvents(database or office.database, "urn:paddock", landed)


async def joined(live: LiveEvents, count: int) -> None:
    for _ in range(PATIENCE * 200):
        if live.followers == count:
            return
        await asyncio.sleep(0.005)  # they tell nobody
    raise AssertionError(f"{live.followers} follow")


def told(text: bytes) -> list[tuple[int, str]]:
    """The number and the group of each event."""
    found: list[tuple[int, str]] = []
    for one in filter(None, text.decode().split("\n\n")):
        fields = dict(line.split(": ", 1) for line in one.split("\n"))
        if "data" in fields:
            found.append((int(fields["id"]), json.loads(fields["data"])["data"]["group"]))
    return found


async def test_one_reading_serves_all_who_follow_and_who_comes_back_goes_on_where_they_were(office: Office) -> None:
    counting = Counting(office.database)
    live = live_on(office, counting)
    await office.happen("before")
    now = await live.last_seq(DEFAULT_TENANT)
    many = [live.follow(DEFAULT_TENANT, EVERYTHING, now) for _ in range(20)]
    first = [asyncio.ensure_future(anext(one)) for one in many]
    await joined(live, len(many))
    await office.happen("a", "b")
    counting.reads = 0
    await live.poll()

    got = [told((await one).text) for one in first]
    assert counting.reads == 1 and all(each == got[0] for each in got)
    assert [name for _, name in got[0]] == ["a", "b"], "from now on"
    for one in many:
        await one.aclose()
    assert live.followers == 0

    await office.happen("c")
    (number, _), _ = got[0]
    async with aclosing(live.follow(DEFAULT_TENANT, EVERYTHING, number)) as again:
        assert [name for _, name in told((await anext(again)).text)] == ["b", "c"]
        following = asyncio.ensure_future(anext(again))
        await joined(live, 1)
        await office.happen("d")
        await live.poll()
        assert [name for _, name in told((await following).text)] == ["d"], "neither lost nor told twice"


async def test_one_who_does_not_keep_up_is_let_go_and_gets_the_rest_by_number(office: Office) -> None:
    live = live_on(office)
    slow, quick = (live.follow(DEFAULT_TENANT, EVERYTHING, 0) for _ in range(2))
    begun = [asyncio.ensure_future(anext(one)) for one in (slow, quick)]
    await joined(live, 2)
    await office.happen("first")
    await live.poll()
    last, _ = told((await begun[0]).text)[-1]
    await begun[1]
    names = [f"g{number}" for number in range(MAX_QUEUED_EVENTS + 10)]
    seen: list[str] = []
    for begin in range(0, len(names), 50):
        await office.happen(*names[begin : begin + 50])
        await live.poll()
        seen += [name for _, name in told((await anext(quick)).text)]

    assert seen == names
    with pytest.raises(StopAsyncIteration):
        await anext(slow)
    assert live.followers == 1
    async with aclosing(live.follow(DEFAULT_TENANT, EVERYTHING, last)) as again:
        assert [name for _, name in told((await anext(again)).text)] == names
    await quick.aclose()


async def test_what_does_not_fit_moves_the_number_on_without_an_event(office: Office) -> None:
    live = live_on(office)
    await office.happen("a", "b", "c")
    async with aclosing(live.follow(DEFAULT_TENANT, EventView(("person.*",)), 0)) as following:
        assert (await anext(following)).text == b"id: 3\n\n"


async def test_only_what_somebody_follows_is_read_and_one_who_comes_meanwhile_misses_nothing(office: Office) -> None:
    batches: list[Any] = []
    came: list[asyncio.Task[Any]] = []

    @dataclass
    class Watched(Counting):
        async def read(self, unit: Any) -> Any:
            got = await super().read(unit)
            if isinstance(got, dict):
                batches.append(got[DEFAULT_TENANT])
                if not came:  # while the entries are on their way to those who follow
                    came.append(asyncio.ensure_future(anext(late)))
                    await joined(live, 2)
            return got

    live = live_on(office, Watched(office.database))
    now = await live.last_seq(DEFAULT_TENANT)
    narrow = live.follow(DEFAULT_TENANT, EventView(("approval.*", "plugin.*")), now)
    late = live.follow(DEFAULT_TENANT, EventView(("group.*",)), now)
    first = asyncio.ensure_future(anext(narrow))
    await joined(live, 1)
    await office.happen("a", "b")

    assert await live.poll(), "it has to read again, for the one who came"
    assert batches == [([], now + 2)]
    assert not await live.poll()
    assert [name for _, name in told((await came[0]).text)] == ["a", "b"]
    assert not first.done()
    first.cancel()
    await late.aclose()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[tuple[Daemon, dict[str, str]], None, None]:
    paddock = Paddock(tmp_path_factory.mktemp("live") / "home")
    paddock.quickly("tenant", "add", "acme")
    keys: dict[str, str] = {}
    for name, role in (("omar", "operator"), ("zoe", "member")):
        paddock.quickly("user", "add", name, "--tenant", "acme", "--role", role)
        options = ("--tenant", "acme", "--role", role, "--json")
        keys[name] = paddock.quickly("apikey", "add", name, *options).json["token"]
    with daemon(paddock) as started:
        yield started, keys


def test_events_are_followed_and_resumed_over_http(served: tuple[Daemon, dict[str, str]]) -> None:
    started, _ = served
    add = ("group", "add")
    with started.following("/events?type=group.*,person.*") as events:
        started.paddock.quickly(*add, "one")
        started.paddock.quickly(*add, "two")
        first, second = next(events), next(events)
    assert [one["data"]["data"]["group"] for one in (first, second)] == ["one", "two"]
    assert first["data"]["type"] == "dev.paddock.group.changed"
    assert first["data"]["data"]["by"].startswith("local:"), "its operator sees what the ledger shows them"
    started.paddock.quickly(*add, "three")
    with started.following("/events?type=group.changed", last_event_id=first["id"]) as events:
        assert [next(events)["data"]["data"]["group"] for _ in range(2)] == ["two", "three"]
    with started.following("/events?type=tenant.created&after=0") as events:
        assert next(events)["data"]["data"]["tenant"] == "acme"
    wrong = started.ask("GET", "/events?type=group.changd")
    assert (wrong.status, wrong.body["code"]) == (400, "events.type")


def test_each_tenant_follows_its_own_events_and_only_its_operator_may(served: tuple[Daemon, dict[str, str]]) -> None:
    started, keys = served
    own = {"authorization": f"Bearer {keys['omar']}"}
    with started.following("/events?type=group.*", **own) as events:
        started.paddock.quickly("group", "add", "not-theirs")
        started.paddock.quickly("group", "add", "theirs", "--tenant", "acme")
        event = next(events)["data"]
    assert (event["tenant"], event["data"]["group"]) == ("acme", "theirs")
    assert started.ask("GET", "/events", authorization=f"Bearer {keys['zoe']}").status == 403
    assert started.ask("GET", "/events?tenant=default", **own).status == 404


@pytest.mark.req("B-23", "revoked rights end open streams")
@pytest.mark.parametrize("path", ["/events?type=group.*", "/ledger?follow=1&type=group.*"])
def test_whoever_may_not_any_more_hears_no_more_within_seconds(
    served: tuple[Daemon, dict[str, str]], path: str
) -> None:
    paddock = served[0].paddock
    given = paddock.quickly("apikey", "add", "omar", "--tenant", "acme", "--role", "operator", "--json").json

    def another() -> None:
        paddock.quickly("group", "add", f"{given['id']}-{next(numbers)}", "--tenant", "acme")

    numbers = itertools.count()
    with served[0].following(path, authorization=f"Bearer {given['token']}") as events:
        another()
        assert next(events)["data"]
        paddock.quickly("apikey", "remove", given["id"], "--tenant", "acme", "--yes")
        ended = threading.Thread(target=lambda: list(events))
        ended.start()

        def is_over() -> bool:
            another()
            return not ended.is_alive()

        eventually(is_over, "the stream goes on")


def test_five_hundred_who_follow_are_cheap(served: tuple[Daemon, dict[str, str]]) -> None:
    started, _ = served
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 1200:
        pytest.skip("needs 1,200 open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 1200), hard))
    before = _memory(started)
    clients: list[socket.socket] = []
    try:
        for _ in range(500):
            client = socket.socket(socket.AF_UNIX)
            client.settimeout(PATIENCE)
            client.connect(str(started.socket))
            client.sendall(b"GET /api/v1/events?type=group.* HTTP/1.1\r\nHost: localhost\r\n\r\n")
            clients.append(client)
        for client in clients:
            _read_until(client, b": open\n\n")
        eventually(lambda: _told_to_all(started, clients), "not everybody hears of it")
        each = (_memory(started) - before) / len(clients)
        assert each < 100, f"{each:.0f} KiB for each"
    finally:
        for client in clients:
            client.close()


def _told_to_all(started: Daemon, clients: list[socket.socket]) -> bool:
    started.paddock.quickly("group", "add", "for-all")
    for client in clients:
        _read_until(client, b'"group":"for-all"')
    return True


def _read_until(client: socket.socket, words: bytes) -> None:
    read = b""
    while words not in read:
        more = client.recv(65_536)
        assert more, read
        read += more


def _memory(started: Daemon) -> int:
    """What the daemon holds in memory, in KiB."""
    status = Path(f"/proc/{started.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")))
