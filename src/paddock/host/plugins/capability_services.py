"""Builds the capability dispatcher with every service behind it."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from msgspec import Struct

from paddock.capabilities.artifacts.access import MayCall
from paddock.capabilities.artifacts.files import artifacts_directory
from paddock.capabilities.artifacts.rows import ArtifactLimits
from paddock.capabilities.artifacts.service import ArtifactService, open_artifacts
from paddock.capabilities.authorization import PolicyCheck
from paddock.capabilities.dispatcher import CapabilityDispatcher, FenceCheck
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


class CapabilityServices(Struct, frozen=True):
    """The services that the host provides to plugins."""

    dispatcher: CapabilityDispatcher
    storage: SqlService
    artifacts: ArtifactService
    cache: CacheService
    rate: RateLimitService
    secrets: Vault

    def discard_effect_note(self, effect: IdempotencyRecord) -> None:
        """Delete the effect note in the plugin's tables: once the effect's record says "happened", it is not needed."""
        if effect.recovery == "atomic":
            self.storage.release_effect_record(
                effect.effect_key.tenant, PluginName(effect.effect_key.plugin), effect.call
            )

    async def release_plugin(self, plugin: PluginName) -> None:
        """Release the resources held for a plugin that was uninstalled and no longer runs."""
        self.cache.forget(plugin)
        self.rate.forget(plugin)
        await self.storage.forget(plugin)
        await self.artifacts.forget(plugin)


@asynccontextmanager
async def open_capability_services(
    storage: Path,
    database: Database,
    logs: PluginLogs,
    authorizer: PolicyCheck,
    *,
    publish_for: Callable[[Tenant], EventSink],
    clock: Clock,
    random: Random,
    keys: WrappingKeys,
    may_call: MayCall,
    artifacts: ArtifactLimits | None = None,
    fencing: FenceCheck | None = None,
) -> AsyncGenerator[CapabilityServices, None]:
    """Open every capability service for as long as the block runs.

    Args:
        storage: The directory of the plugins' SQL databases; their artifacts are stored beside it.
        database: The host's own database.
        logs: Receives log lines of plugins.
        authorizer: Decides which capability requests are permitted.
        publish_for: Returns the event sink of a tenant.
        clock: For timestamps.
        random: For ids.
        keys: The keys that secrets are sealed under.
        may_call: Decides who may read artifacts, by the callables that made them.
        artifacts: Size limits of artifacts.
        fencing: Decides which calls may still act, if not by their idempotency records alone.
    """
    async with (
        open_sql_service(storage, clock=clock, random=random) as sql,
        open_artifacts(
            artifacts_directory(storage.parent),
            database,
            may_call=may_call,
            publish_for=publish_for,
            clock=clock,
            limits=artifacts,
        ) as artifact_service,
    ):
        cache = CacheService(clock)
        rate, audit = RateLimitService(clock), AuditService(publish_for, clock)

        async def secret(request: CapabilityRequest, name: str) -> str | None:
            # Through the dispatcher again: using a secret in a request needs the same permission as reading it.
            method = f"{wire_namespace(request.manifest)}.secrets.get"
            return (await dispatcher.answer(request, method, {"name": name}))["value"]

        key_value, log = KeyValueService(database, clock), LogService(_log_writer(logs), clock)
        fencing = fencing or EffectFencing(database)
        vault = Vault(database, keys)
        secrets = PluginSecretService(vault, publish_for, clock)
        http = HttpService(publish_for, clock, random, fencing, secret=secret, bound=secrets.bound_values)
        services = (sql, key_value, cache, log, artifact_service, rate, audit, http, secrets)
        handlers = {method: handler for service in services for method, handler in service.handlers().items()}
        usage = UsageRecorder(publish_for)
        dispatcher = CapabilityDispatcher(
            handlers, authorizer, fencing, usage=usage, denials=DenialRecorder(publish_for, clock)
        )
        try:
            yield CapabilityServices(dispatcher, sql, artifact_service, cache, rate, vault)
        finally:
            usage.close()


def _log_writer(logs: PluginLogs) -> Callable[[CapabilityRequest, str, str, Mapping[str, str]], None]:
    def write(request: CapabilityRequest, level: str, message: str, fields: Mapping[str, str]) -> None:
        call_fields = {"request_id": request.call.request} if request.call is not None else {}
        # The same fields as the SDK writes, so that lines read alike whether they came by call or by standard error.
        record = {**fields, **call_fields, "level": level, "plugin": request.plugin, "message": message}
        logs.write(log_name(request.tenant, request.plugin), json.dumps(record, ensure_ascii=False))

    return write
