"""A whole door with every family behind it, plugins to ask through it, and what was recorded."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache as kept_once
from pathlib import Path
from typing import Any

from paddock.cage.network.dialing import Outside
from paddock.capabilities.artifacts.artifacts import Artifacts, open_artifacts
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.asked import Asked
from paddock.capabilities.asking import Asking
from paddock.capabilities.audit import Audit
from paddock.capabilities.cache import Cache, CacheLimits
from paddock.capabilities.deciding import UseByTheRules
from paddock.capabilities.denials import Denials
from paddock.capabilities.door import Door
from paddock.capabilities.http.fetch import Http
from paddock.capabilities.keyvalue import KeyValue
from paddock.capabilities.keyvalue_rows import KeyValueLimits
from paddock.capabilities.log import Log
from paddock.capabilities.rate import Rate
from paddock.capabilities.secrets import Secrets
from paddock.capabilities.storage.limits import StorageLimits
from paddock.capabilities.storage.storage import Storage, open_storage
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.errors import PaddockError
from paddock.core.event import Event
from paddock.core.events_capabilities import PluginAsked
from paddock.core.ids import DEFAULT_TENANT, PluginName, Tenant
from paddock.core.outward import json_rpc_error
from paddock.manifest.capability import parse
from paddock.manifest.model import Dialect, Kind, Manifest
from paddock.policy.engine import Policy
from paddock.policy.rules import RuleFile, checked_rules, shipped_file
from paddock.policy.subject import plugin_subject
from paddock.policy.vocabulary import vocabulary
from paddock.secrets.keys import keys_from
from paddock.secrets.vault import Vault
from paddock.store.database import Database, open_database

SQL = ("storage:write",)
EVERYTHING = ("storage:write", "host:storage", "host:cache", "host:artifacts", "host:rate")


class SetClock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Kept:
    """The events of one tenant."""

    events: list[Event]
    news: asyncio.Event

    def publish(self, event: Event) -> None:
        self.events.append(event)
        self.news.set()


def plugin(
    name: str = "notes",
    granted: tuple[str, ...] = EVERYTHING,
    *,
    tenant: str = DEFAULT_TENANT,
    dialect: Dialect = Dialect.NATIVE,
    instance: str = "",
    kind: Kind = Kind.PLUGIN,
    tier: str = "personal",
    **more: Any,
) -> Asking:
    """A plugin that asks, with what it was granted."""
    manifest = Manifest(PluginName(name), "1.0.0", dialect, kind=kind)
    held = tuple(parse(text) for text in granted)
    subject = plugin_subject(manifest, tenant, tier=tier, signature="unsigned")
    return Asking(Tenant(tenant), PluginName(name), manifest, held, None, instance, subject=subject, **more)


class NoFences:
    """Every call may act: here none has a record that would say otherwise."""

    async def require(self, asking: Asking) -> None: ...


@dataclass(slots=True)
class Book:
    """The rules that are in force."""

    policy: Policy


@kept_once
def rules_with(own: str) -> Policy:
    """The shipped rules, with these beside them."""
    return Policy(checked_rules([shipped_file(), RuleFile("own.cedar", own)], vocabulary(())))


@dataclass(slots=True)
class Stage:
    """The door, and everything around it that a test may look at."""

    door: Door
    storage: Storage
    artifacts: Artifacts
    cache: Cache
    database: Database
    clock: SetClock
    events: dict[str, list[Event]]
    lines: list[tuple[str, str, str, Mapping[str, str]]] = field(default_factory=list)
    book: Book = field(default_factory=lambda: Book(rules_with("")))
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, asking: Asking, method: str, **params: Any) -> Any:
        """What the plugin gets for a method; the namespace is added."""
        namespace = "kaged" if asking.manifest.dialect is Dialect.KAGED else "paddock"
        return await self.door.answer(asking, f"{namespace}.{method}", params)

    async def refused(self, asking: Asking, method: str, **params: Any) -> PaddockError:
        """The error that the plugin gets instead."""
        try:
            answer = await self.ask(asking, method, **params)
        except PaddockError as error:
            return error
        raise AssertionError(f"{method} {params} was answered with {str(answer)[:200]}")

    async def exec(self, asking: Asking, sql: str, *params: Any, **more: Any) -> Any:
        return await self.ask(asking, "storage.exec", sql=sql, params=list(params), **more)

    async def rows(self, asking: Asking, sql: str, *params: Any, **more: Any) -> list[tuple[Any, ...]]:
        """What a query finds, as tuples."""
        answer = await self.ask(asking, "storage.query", sql=sql, params=list(params), **more)
        return [tuple(row.values()) for row in answer["rows"]]

    async def until(self, seen: Callable[[], bool]) -> None:
        """Wait until what is recorded shows this."""
        async with asyncio.timeout(10):
            while not seen():
                self.news.clear()
                await self.news.wait()

    def denials(self) -> list[Event]:
        """Everything that was recorded but that something was asked for."""
        return [event for events in self.events.values() for event in events if not isinstance(event, PluginAsked)]

    def recorded(self, kind: type[Event], tenant: str = DEFAULT_TENANT) -> list[Any]:
        return [event for event in self.events.get(tenant, []) if isinstance(event, kind)]


def wire_code(error: PaddockError) -> int:
    """The number that the plugin sees."""
    return json_rpc_error(error)["code"]


@asynccontextmanager
async def open_stage(
    directory: Path,
    *,
    limits: StorageLimits | None = None,
    cache: CacheLimits | None = None,
    values: KeyValueLimits | None = None,
    artifacts: ArtifactLimits | None = None,
    store: str | None = None,
    rules: str = "",
    outside: Outside | None = None,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> AsyncGenerator[Stage, None]:
    """A stage whose files lie below a directory."""
    clock = SetClock()
    events: dict[str, list[Event]] = {}
    book = Book(rules_with(rules))
    news = asyncio.Event()
    lines: list[tuple[str, str, str, Mapping[str, str]]] = []

    def sink(asking: Asking, level: str, message: str, fields: Mapping[str, str]) -> None:
        lines.append((asking.plugin, level, message, fields))

    def publisher(tenant: Tenant) -> Kept:
        return Kept(events.setdefault(tenant, []), news)

    async with (
        open_database(store or directory / "store.db") as database,
        # The system's clock: statements really run, and their time is up when it is.
        open_storage(directory / "storage", clock=SystemClock(), random=SystemRandom(), limits=limits) as storage,
        open_artifacts(
            directory / "artifacts", database, publish_for=publisher, clock=clock, limits=artifacts
        ) as kept_artifacts,
    ):
        kept_values = KeyValue(database, clock, values)
        kept_cache = Cache(clock, cache)
        vault = Vault(database, keys_from({}, directory / "state", SystemRandom(), preferred="file"))

        async def secret(asking: Asking, name: str) -> str | None:
            return (await door.answer(asking, "paddock.secrets.get", {"name": name}))["value"]

        secrets = Secrets(vault, publisher, clock)
        handlers = {
            **Log(sink, clock).handlers(),
            **Rate(clock).handlers(),
            **Audit(publisher, clock).handlers(),
            **storage.handlers(),
            **kept_values.handlers(),
            **kept_cache.handlers(),
            **kept_artifacts.handlers(),
            **secrets.handlers(),
            # The system's clock: what is sent really travels.
            **Http(
                publisher,
                SystemClock(),
                SystemRandom(),
                NoFences(),
                outside=outside,
                tls=tls,
                secret=secret,
                bound=secrets.bound,
            ).handlers(),
        }
        with closing(Asked(publisher)) as asked:
            door = Door(handlers, UseByTheRules(book), NoFences(), asked=asked, denials=Denials(publisher, clock))
            yield Stage(door, storage, kept_artifacts, kept_cache, database, clock, events, lines, book, news)
