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

from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.artifacts.service import ArtifactService, open_artifacts
from paddock.capabilities.authorization import PolicyCheck
from paddock.capabilities.dispatcher import CapabilityDispatcher
from paddock.capabilities.http.service import HttpService
from paddock.capabilities.recording import DenialRecorder, UsageRecorder
from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.services.audit import AuditService
from paddock.capabilities.services.cache import CacheLimits, CacheService
from paddock.capabilities.services.keyvalue import KeyValueService
from paddock.capabilities.services.keyvalue_rows import KeyValueLimits
from paddock.capabilities.services.log import LogService
from paddock.capabilities.services.rate import RateLimitService
from paddock.capabilities.services.secrets import PluginSecretService
from paddock.capabilities.sql.limits import StorageLimits
from paddock.capabilities.sql.service import SqlService, open_sql_service
from paddock.core.call import CallContext
from paddock.core.clock import SystemClock, SystemRandom
from paddock.core.error_formats import json_rpc_error
from paddock.core.errors import PaddockError
from paddock.core.events.capabilities import PluginAsked
from paddock.core.events.event import Event
from paddock.core.ids import DEFAULT_TENANT, PluginName, Tenant
from paddock.manifest.capability import parse_capability
from paddock.manifest.model import Dialect, Manifest, PluginKind
from paddock.net.dial import OutboundNetwork
from paddock.policy.engine import Policy
from paddock.policy.principal import plugin_principal
from paddock.policy.rules import RuleFile, checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary
from paddock.secrets.vault import Vault
from paddock.secrets.wrapping_keys import build_wrapping_keys
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


FOR_ALL = "for_all"
"""The callable that anybody may call, of any plugin."""


def plugin(
    name: str = "notes",
    granted: tuple[str, ...] = EVERYTHING,
    *,
    tenant: str = DEFAULT_TENANT,
    dialect: Dialect = Dialect.NATIVE,
    instance: str = "",
    kind: PluginKind = PluginKind.PLUGIN,
    tier: str = "personal",
    **more: Any,
) -> CapabilityRequest:
    """A plugin that asks, with what it was granted."""
    manifest = Manifest(PluginName(name), "1.0.0", dialect, kind=kind)
    held = tuple(parse_capability(text) for text in granted)
    subject = plugin_principal(manifest, tenant, tier=tier, signature="unsigned")
    return CapabilityRequest(Tenant(tenant), PluginName(name), manifest, held, None, subject, instance, **more)


class NoFences:
    """Every call may act: here none has a record that would say otherwise."""

    async def require(self, request: CapabilityRequest) -> None: ...


@dataclass(slots=True)
class Book:
    """The rules that are in force."""

    policy: Policy


@kept_once
def rules_with(own: str) -> Policy:
    """The shipped rules, with these beside them."""
    return Policy(checked_rules([shipped_rule_file(), RuleFile("own.cedar", own)], build_vocabulary(())))


@dataclass(slots=True)
class Stage:
    """The door, and everything around it that a test may look at."""

    door: CapabilityDispatcher
    storage: SqlService
    artifacts: ArtifactService
    cache: CacheService
    database: Database
    clock: SetClock
    events: dict[str, list[Event]]
    lines: list[tuple[str, str, str, Mapping[str, str]]] = field(default_factory=list)
    book: Book = field(default_factory=lambda: Book(rules_with("")))
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, asking: CapabilityRequest, method: str, **params: Any) -> Any:
        """What the plugin gets for a method; the namespace is added."""
        namespace = "kaged" if asking.manifest.dialect is Dialect.KAGED else "paddock"
        return await self.door.answer(asking, f"{namespace}.{method}", params)

    async def refused(self, asking: CapabilityRequest, method: str, **params: Any) -> PaddockError:
        """The error that the plugin gets instead."""
        try:
            answer = await self.ask(asking, method, **params)
        except PaddockError as error:
            return error
        raise AssertionError(f"{method} {params} was answered with {str(answer)[:200]}")

    async def exec(self, asking: CapabilityRequest, sql: str, *params: Any, **more: Any) -> Any:
        return await self.ask(asking, "storage.exec", sql=sql, params=list(params), **more)

    async def rows(self, asking: CapabilityRequest, sql: str, *params: Any, **more: Any) -> list[tuple[Any, ...]]:
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
    outside: OutboundNetwork | None = None,
    tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> AsyncGenerator[Stage, None]:
    """A stage whose files lie below a directory."""
    clock = SetClock()
    events: dict[str, list[Event]] = {}
    book = Book(rules_with(rules))
    news = asyncio.Event()
    lines: list[tuple[str, str, str, Mapping[str, str]]] = []

    def sink(asking: CapabilityRequest, level: str, message: str, fields: Mapping[str, str]) -> None:
        lines.append((asking.plugin, level, message, fields))

    def publisher(tenant: Tenant) -> Kept:
        return Kept(events.setdefault(tenant, []), news)

    async def may_call(_context: CallContext, _plugin: str, callable_name: str) -> bool:
        return callable_name == FOR_ALL

    async with (
        open_database(store or directory / "store.db") as database,
        # The system's clock: statements really run, and their time is up when it is.
        open_sql_service(directory / "storage", clock=SystemClock(), random=SystemRandom(), limits=limits) as storage,
        open_artifacts(
            directory / "artifacts",
            database,
            may_call=may_call,
            publish_for=publisher,
            clock=clock,
            limits=artifacts,
        ) as kept_artifacts,
    ):
        kept_values = KeyValueService(database, clock, values)
        kept_cache = CacheService(clock, cache)
        vault = Vault(database, build_wrapping_keys({}, directory / "state", SystemRandom(), preferred="file"))

        async def secret(asking: CapabilityRequest, name: str) -> str | None:
            return (await door.answer(asking, "paddock.secrets.get", {"name": name}))["value"]

        secrets = PluginSecretService(vault, publisher, clock)
        handlers = {
            **LogService(sink, clock).handlers(),
            **RateLimitService(clock).handlers(),
            **AuditService(publisher, clock).handlers(),
            **storage.handlers(),
            **kept_values.handlers(),
            **kept_cache.handlers(),
            **kept_artifacts.handlers(),
            **secrets.handlers(),
            # The system's clock: what is sent really travels.
            **HttpService(
                publisher,
                SystemClock(),
                SystemRandom(),
                NoFences(),
                outside=outside,
                tls=tls,
                secret=secret,
                bound=secrets.bound_values,
            ).handlers(),
        }
        with closing(UsageRecorder(publisher)) as asked:
            door = CapabilityDispatcher(
                handlers, PolicyCheck(book), NoFences(), usage=asked, denials=DenialRecorder(publisher, clock)
            )
            yield Stage(door, storage, kept_artifacts, kept_cache, database, clock, events, lines, book, news)
