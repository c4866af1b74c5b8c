"""The door back, with every family behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.capabilities.artifacts.files import artifacts_directory
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.artifacts.service import ArtifactService, open_artifacts
from paddock.capabilities.authorization import CapabilityAuthorizer
from paddock.capabilities.dispatcher import CapabilityDispatcher
from paddock.capabilities.http.service import HttpService
from paddock.capabilities.methods import wire_namespace
from paddock.capabilities.recording import DenialRecorder, UsageRecorder
from paddock.capabilities.request import CapabilityRequest
from paddock.capabilities.services.audit import AuditService
from paddock.capabilities.services.cache import CacheService
from paddock.capabilities.services.keyvalue import KeyValueService
from paddock.capabilities.services.log import LogService
from paddock.capabilities.services.rate import RateLimitService
from paddock.capabilities.services.secrets import PluginSecretService
from paddock.capabilities.sql.service import SqlService, open_sql_service
from paddock.core.clock import Clock, Random
from paddock.core.events.event import EventSink
from paddock.core.ids import PluginName, Tenant
from paddock.gate.idempotency.fencing import EffectFencing
from paddock.gate.idempotency.records import IdempotencyRecord
from paddock.host.plugins.logs.log_files import log_name
from paddock.host.plugins.logs.plugin_logs import PluginLogs
from paddock.secrets.vault import Vault
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import Database


@dataclass(frozen=True, slots=True)
class CapabilityServices:
    """What the host does for plugins."""

    dispatcher: CapabilityDispatcher
    storage: SqlService
    artifacts: ArtifactService
    cache: CacheService
    rate: RateLimitService
    secrets: Vault

    def discard_effect_note(self, effect: IdempotencyRecord) -> None:
        """The record of an effect says that it has happened: nobody looks for that in its plugin's tables."""
        if effect.recovery == "atomic":
            self.storage.release_effect_record(
                effect.effect_key.tenant, PluginName(effect.effect_key.plugin), effect.call
            )

    async def release_plugin(self, plugin: PluginName) -> None:
        """Drop what is open here of a plugin that was uninstalled and does not run any more."""
        self.cache.forget(plugin)
        self.rate.forget(plugin)
        await self.storage.forget(plugin)
        await self.artifacts.forget(plugin)


@asynccontextmanager
async def open_capability_services(
    storage: Path,
    database: Database,
    logs: PluginLogs,
    decides: CapabilityAuthorizer,
    *,
    publish_for: Callable[[Tenant], EventSink],
    clock: Clock,
    random: Random,
    keys: WrappingKeys,
    artifacts: ArtifactLimits | None = None,
) -> AsyncGenerator[CapabilityServices, None]:
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
        open_sql_service(storage, clock=clock, random=random) as tables,
        open_artifacts(
            artifacts_directory(storage.parent), database, publish_for=publish_for, clock=clock, limits=artifacts
        ) as kept,
    ):
        cache = CacheService(clock)
        rate, audit = RateLimitService(clock), AuditService(publish_for, clock)

        async def secret(asking: CapabilityRequest, name: str) -> str | None:
            # Through the door again: what is needed for a secret is needed for its use too.
            asked_for = f"{wire_namespace(asking.manifest)}.secrets.get"
            return (await door.answer(asking, asked_for, {"name": name}))["value"]

        values, log = KeyValueService(database, clock), LogService(_log_writer(logs), clock)
        fences = EffectFencing(database)
        vault = Vault(database, keys)
        secrets = PluginSecretService(vault, publish_for, clock)
        web = HttpService(publish_for, clock, random, fences, secret=secret, bound=secrets.bound_values)
        families = (tables, values, cache, log, kept, rate, audit, web, secrets)
        handlers = {method: handler for family in families for method, handler in family.handlers().items()}
        asked = UsageRecorder(publish_for)
        door = CapabilityDispatcher(handlers, decides, fences, usage=asked, denials=DenialRecorder(publish_for, clock))
        try:
            yield CapabilityServices(door, tables, kept, cache, rate, vault)
        finally:
            asked.close()


def _log_writer(logs: PluginLogs) -> Callable[[CapabilityRequest, str, str, Mapping[str, str]], None]:
    def write(asking: CapabilityRequest, level: str, message: str, fields: Mapping[str, str]) -> None:
        about = {"request_id": asking.call.request} if asking.call is not None else {}
        # As the SDK writes it, so that a line is read alike whichever way it took.
        record = {**fields, **about, "level": level, "plugin": asking.plugin, "message": message}
        logs.write(log_name(asking.tenant, asking.plugin), json.dumps(record, ensure_ascii=False))

    return write
