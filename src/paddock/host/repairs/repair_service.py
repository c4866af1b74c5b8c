"""Lists, performs and ignores repairs. Each request detects them anew, so that fixed problems vanish by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.clock import format_utc
from paddock.core.errors import Denied, NotFound, StoreUnavailable
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.single_flight import SingleFlight
from paddock.host.repairs.fact_collector import CollectedFacts, FactCollector
from paddock.host.repairs.facts import RepairFacts
from paddock.host.repairs.host_detectors import detect_host_repairs
from paddock.host.repairs.ignore_list import IgnoredRepair, delete_ignored, ignore_repair, unignore_repair
from paddock.host.repairs.plugin_detectors import detect_plugin_repairs
from paddock.host.repairs.repair import Repair, sort_by_severity
from paddock.host.repairs.repair_actions import RepairActions
from paddock.plugins.store.thread import StoreThread

_MAX_RECENT_AGE_S = 5.0
_TRANSIENT_PREFIXES = ("machine.", "host.", "plugin.down:", "plugin.configuration_unused:", "secret.key_missing:")


def is_transient(repair: str) -> bool:
    """Return whether a repair, by its id, may only seem to be gone: its process is just restarting, or the machine was
    not probed yet. A decision to ignore it stays until its cause is another.
    """
    return repair.startswith(_TRANSIENT_PREFIXES)


def detect_repairs(facts: RepairFacts) -> list[Repair]:
    """Detect all repairs, the most severe first."""
    return sort_by_severity((*detect_host_repairs(facts), *detect_plugin_repairs(facts)))


class RepairList(Struct, frozen=True):
    """The repairs of a tenant, the most severe first.

    Attributes:
        open: Those that a person has to act on.
        ignored: Those that are ignored, with the decision.
    """

    open: tuple[Repair, ...]
    ignored: tuple[tuple[Repair, IgnoredRepair], ...]


class RepairService:
    """Detects, performs and ignores repairs.

    Args:
        collector: Collects facts.
        actions: Performs the actions of buttons.
        store: Holds the decisions to ignore repairs.
        monotonic: Gives the time, in seconds.
    """

    def __init__(
        self, collector: FactCollector, actions: RepairActions, store: StoreThread, monotonic: Callable[[], float]
    ) -> None:
        self._collector = collector
        self._actions = actions
        self._store = store
        self._monotonic = monotonic
        self._noticed: dict[Tenant, dict[str, str]] = {}  # by fingerprint: when each repair was first detected
        self._recent: dict[Tenant, tuple[float, RepairList]] = {}  # the last list of each tenant, with its time
        # Every open console page polls this: share one run.
        self._shared_collection: SingleFlight[Tenant, CollectedFacts] = SingleFlight(collector.collect)

    async def list_repairs(self, tenant: Tenant, *, anew: bool = False) -> RepairList:
        """List all current repairs; `anew` also probes the machine again.

        Raises:
            PaddockError: the store cannot be read.
        """
        collected = await (self._collector.collect(tenant, anew=True) if anew else self._shared_collection.run(tenant))
        repairs = self._with_age(tenant, detect_repairs(collected.facts), collected.facts.now)
        ignored = [
            (repair, decision)
            for repair in repairs
            if (decision := collected.ignored.get(repair.id)) and decision.matches(repair)
        ]
        ignored_ids = {repair.id for repair, _ in ignored}
        repair_list = RepairList(tuple(repair for repair in repairs if repair.id not in ignored_ids), tuple(ignored))
        if obsolete := [
            name for name in collected.ignored.keys() - {repair.id for repair in repairs} if not is_transient(name)
        ]:
            with suppress(StoreUnavailable):  # retried at the next request
                await self._store.run(
                    lambda store: store.database.write(lambda tx: delete_ignored(tx, store.tenant, obsolete)), tenant
                )
        self._recent[tenant] = self._monotonic(), repair_list
        return repair_list

    def _with_age(self, tenant: Tenant, repairs: Iterable[Repair], now: datetime) -> list[Repair]:
        """Return the repairs with the time since when each is known."""
        noticed, at = self._noticed.get(tenant, {}), format_utc(now)
        dated = [replace(one, since=one.since or noticed.get(one.fingerprint, at)) for one in repairs]
        self._noticed[tenant] = {one.fingerprint: one.since for one in dated}
        return dated

    async def recent_repairs(self, tenant: Tenant) -> RepairList:
        """List the repairs of the last few seconds: detecting them reads the files of every plugin.

        Raises:
            PaddockError: the store cannot be read.
        """
        detected_at, repair_list = self._recent.get(tenant, (0.0, None))
        if repair_list is not None and self._monotonic() - detected_at < _MAX_RECENT_AGE_S:
            return repair_list
        return await self.list_repairs(tenant)

    async def run_action(
        self, tenant: Tenant, repair_id: str, action: str, by: PrincipalId, *, operates_host: bool
    ) -> Repair:
        """Press a button of a current repair.

        Raises:
            NotFound: the repair is gone: another person was quicker, or its cause is gone.
            Denied: the button is for operators of the host.
            PaddockError: the action failed; says why.
        """
        repair = await self._require(tenant, repair_id)
        button = repair.find_button(action)
        if button is not None and button.host_only and not operates_host:
            raise Denied(
                "this changes a plugin for all tenants of this host",
                code="auth.not_for_you",
                hint="ask an operator of the host",
            )
        try:
            await self._actions.run(tenant, repair, action, by)
        finally:
            self._recent.pop(tenant, None)
        return repair

    async def ignore(self, tenant: Tenant, repair_id: str, by: PrincipalId) -> None:
        """Ignore a repair as long as its current cause stays the same.

        Raises:
            NotFound: the repair is gone.
        """
        repair = await self._require(tenant, repair_id)
        await self._store.run(
            lambda store: store.database.write(lambda tx: ignore_repair(store.audited_change(tx), repair)),
            tenant,
            by=by,
        )
        self._recent.pop(tenant, None)

    async def unignore(self, tenant: Tenant, repair_id: str, by: PrincipalId) -> None:
        """Report a repair again.

        Raises:
            NotFound: it is not ignored.
        """
        await self._store.run(
            lambda store: store.database.write(lambda tx: unignore_repair(store.audited_change(tx), repair_id)),
            tenant,
            by=by,
        )
        self._recent.pop(tenant, None)

    async def _require(self, tenant: Tenant, repair_id: str) -> Repair:
        collected = await self._collector.collect(tenant)
        repair = next((candidate for candidate in detect_repairs(collected.facts) if candidate.id == repair_id), None)
        if repair is None:
            raise _gone_error()
        return repair


def _gone_error() -> NotFound:
    return NotFound("this repair is no longer needed", code="repair.gone", hint="reload the list")
