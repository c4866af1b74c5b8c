"""The door back, with every family behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.capabilities.artifacts.artifacts import Artifacts, open_artifacts
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.artifacts.shelf import artifacts_in
from paddock.capabilities.asked import Asked
from paddock.capabilities.asking import Asking
from paddock.capabilities.audit import Audit
from paddock.capabilities.cache import Cache
from paddock.capabilities.deciding import DecidesUse
from paddock.capabilities.denials import Denials
from paddock.capabilities.door import Door
from paddock.capabilities.http.fetch import Http
from paddock.capabilities.keyvalue import KeyValue
from paddock.capabilities.log import Log
from paddock.capabilities.methods import namespace
from paddock.capabilities.rate import Rate
from paddock.capabilities.secrets import Secrets
from paddock.capabilities.storage.storage import Storage, open_storage
from paddock.core.clock import Clock, Random
from paddock.core.event import Publish
from paddock.core.ids import PluginName, Tenant
from paddock.gate.effects.fences import Fences
from paddock.gate.effects.records import Effect
from paddock.host.log_files import log_name
from paddock.host.plugin_logs import PluginLogs
from paddock.secrets.keys import Keys
from paddock.secrets.vault import Vault
from paddock.store.database import Database


@dataclass(frozen=True, slots=True)
class Services:
    """What the host does for plugins."""

    door: Door
    storage: Storage
    artifacts: Artifacts
    cache: Cache
    rate: Rate
    secrets: Vault

    def happened(self, effect: Effect) -> None:
        """The record of an effect says that it has happened: nobody looks for that in its plugin's tables."""
        if effect.recovery == "atomic":
            self.storage.let_go(effect.of.tenant, PluginName(effect.of.plugin), effect.call)

    async def forget(self, plugin: PluginName) -> None:
        """Drop what is open here of a plugin that was uninstalled and does not run any more."""
        self.cache.forget(plugin)
        self.rate.forget(plugin)
        await self.storage.forget(plugin)
        await self.artifacts.forget(plugin)


@asynccontextmanager
async def open_services(
    storage: Path,
    database: Database,
    logs: PluginLogs,
    decides: DecidesUse,
    *,
    publish_for: Callable[[Tenant], Publish],
    clock: Clock,
    random: Random,
    keys: Keys,
    artifacts: ArtifactLimits | None = None,
) -> AsyncGenerator[Services, None]:
    """Everything a plugin may ask for, for as long as the block runs.

    Args:
        storage: The directory of the plugins' own tables; their artifacts lie beside it.
        database: The host's own rows.
        logs: Where plugins' lines go.
        decides: Says what plugins may ask for.
        publish_for: Where a tenant's events are recorded.
        clock: The time.
        random: Chance.
        keys: What secrets are sealed under.
        artifacts: How big these may be.
    """
    async with (
        open_storage(storage, clock=clock, random=random) as tables,
        open_artifacts(
            artifacts_in(storage.parent), database, publish_for=publish_for, clock=clock, limits=artifacts
        ) as kept,
    ):
        cache = Cache(clock)
        rate, audit = Rate(clock), Audit(publish_for, clock)

        async def secret(asking: Asking, name: str) -> str | None:
            # Through the door again: what is needed for a secret is needed for its use too.
            asked_for = f"{namespace(asking.manifest)}.secrets.get"
            return (await door.answer(asking, asked_for, {"name": name}))["value"]

        values, log = KeyValue(database, clock), Log(_into(logs), clock)
        fences = Fences(database)
        vault = Vault(database, keys)
        secrets = Secrets(vault, publish_for, clock)
        web = Http(publish_for, clock, random, fences, secret=secret, bound=secrets.bound)
        families = (tables, values, cache, log, kept, rate, audit, web, secrets)
        handlers = {method: handler for family in families for method, handler in family.handlers().items()}
        asked = Asked(publish_for)
        door = Door(handlers, decides, fences, asked=asked, denials=Denials(publish_for, clock))
        try:
            yield Services(door, tables, kept, cache, rate, vault)
        finally:
            asked.close()


def _into(logs: PluginLogs) -> Callable[[Asking, str, str, Mapping[str, str]], None]:
    def write(asking: Asking, level: str, message: str, fields: Mapping[str, str]) -> None:
        about = {"request_id": asking.call.request} if asking.call is not None else {}
        # As the SDK writes it, so that a line is read alike whichever way it took.
        record = {**fields, **about, "level": level, "plugin": asking.plugin, "message": message}
        logs.write(log_name(asking.tenant, asking.plugin), json.dumps(record, ensure_ascii=False))

    return write
