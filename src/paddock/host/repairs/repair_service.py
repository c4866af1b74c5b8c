"""The list of what somebody has to see to: found anew at every look, so that what is mended is gone from it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

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

_TRANSIENT_PREFIXES = ("machine.", "host.", "plugin.down:", "plugin.configuration_unused:", "secret.key_missing:")


def is_transient(repair: str) -> bool:
    """Whether a repair, by its id, may only seem to be gone: its process is just being started again, or nobody has
    looked at the machine yet. What somebody said of it stays until its cause is another."""
    return repair.startswith(_TRANSIENT_PREFIXES)


def detect_repairs(facts: RepairFacts) -> list[Repair]:
    """All repairs, the worst first."""
    return sort_by_severity((*detect_host_repairs(facts), *detect_plugin_repairs(facts)))


@dataclass(frozen=True, slots=True)
class RepairList:
    """The repairs of a tenant, the worst first.

    Attributes:
        open: Those that somebody has to see to.
        ignored: Those that somebody said to leave alone, with who did and when.
    """

    open: tuple[Repair, ...]
    ignored: tuple[tuple[Repair, IgnoredRepair], ...]


class RepairService:
    """Finds, mends and ignores.

    Args:
        looking: Gathers facts.
        mending: Does what buttons say.
        store: Where it is kept what people ignore.
    """

    def __init__(self, looking: FactCollector, mending: RepairActions, store: StoreThread) -> None:
        self._collector = looking
        self._actions = mending
        self._store = store
        # Every operator's first page asks, again and again while it is open.
        self._shared_collection: SingleFlight[Tenant, CollectedFacts] = SingleFlight(looking.collect)

    async def list_repairs(self, tenant: Tenant, *, anew: bool = False) -> RepairList:
        """All of them as they are now; `anew` looks at the machine again too.

        Raises:
            PaddockError: the store cannot be read.
        """
        seen = await (self._collector.collect(tenant, anew=True) if anew else self._shared_collection.run(tenant))
        repairs = detect_repairs(seen.facts)
        left_alone = [(one, word) for one in repairs if (word := seen.ignored.get(one.id)) and word.matches(one)]
        silent = {one.id for one, _ in left_alone}
        found = RepairList(tuple(one for one in repairs if one.id not in silent), tuple(left_alone))
        if over := [name for name in seen.ignored.keys() - {one.id for one in repairs} if not is_transient(name)]:
            with suppress(StoreUnavailable):  # then another time
                await self._store.run(
                    lambda store: store.database.write(lambda tx: delete_ignored(tx, store.tenant, over)), tenant
                )
        return found

    async def run_action(
        self, tenant: Tenant, repair: str, action: str, by: PrincipalId, *, operates_host: bool
    ) -> Repair:
        """Press a button of a repair that is there right now.

        Raises:
            NotFound: it is not there any more: somebody was quicker, or its cause is gone.
            Denied: the button is for whoever operates the host.
            PaddockError: it did not help; says why.
        """
        one = await self._require(tenant, repair)
        pressed = one.find_button(action)
        if pressed is not None and pressed.host_only and not operates_host:
            raise Denied(
                "this changes a plugin for everybody on this host",
                code="auth.not_for_you",
                hint="ask whoever operates the host",
            )
        await self._actions.run(tenant, one, action, by)
        return one

    async def ignore(self, tenant: Tenant, repair: str, by: PrincipalId) -> None:
        """Leave it alone as long as its cause is the one that there is now.

        Raises:
            NotFound: it is not there any more.
        """
        one = await self._require(tenant, repair)
        await self._store.run(
            lambda store: store.database.write(lambda tx: ignore_repair(store.audited_change(tx), one)), tenant, by=by
        )

    async def unignore(self, tenant: Tenant, repair: str, by: PrincipalId) -> None:
        """Tell of it again.

        Raises:
            NotFound: nobody ignores it.
        """
        await self._store.run(
            lambda store: store.database.write(lambda tx: unignore_repair(store.audited_change(tx), repair)),
            tenant,
            by=by,
        )

    async def _require(self, tenant: Tenant, repair: str) -> Repair:
        seen = await self._collector.collect(tenant)
        found = next((one for one in detect_repairs(seen.facts) if one.id == repair), None)
        if found is None:
            raise _gone_error()
        return found


def _gone_error() -> NotFound:
    return NotFound("this needs no repair any more", code="repair.gone", hint="look at the list again")
