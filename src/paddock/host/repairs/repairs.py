"""The list of what somebody has to see to: found anew at every look, so that what is mended is gone from it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from paddock.core.errors import Denied, NotFound, StoreUnavailable
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.repairs.detecting import detect, is_fleeting
from paddock.host.repairs.ignored import Ignored, forget, heed, ignore
from paddock.host.repairs.looking import Looking, Seen
from paddock.host.repairs.mending import Mending
from paddock.host.repairs.repair import Repair
from paddock.host.shared_looks import SharedLooks
from paddock.plugins.store_thread import StoreThread


@dataclass(frozen=True, slots=True)
class Found:
    """The repairs of a tenant, the worst first.

    Attributes:
        open: Those that somebody has to see to.
        ignored: Those that somebody said to leave alone, with who did and when.
    """

    open: tuple[Repair, ...]
    ignored: tuple[tuple[Repair, Ignored], ...]


class Repairs:
    """Finds, mends and ignores.

    Args:
        looking: Gathers facts.
        mending: Does what buttons say.
        store: Where it is kept what people ignore.
    """

    def __init__(self, looking: Looking, mending: Mending, store: StoreThread) -> None:
        self._looking = looking
        self._mending = mending
        self._store = store
        # Every operator's first page asks, again and again while it is open.
        self._looks: SharedLooks[Tenant, Seen] = SharedLooks(looking.look)

    async def found(self, tenant: Tenant, *, anew: bool = False) -> Found:
        """All of them as they are now; `anew` looks at the machine again too.

        Raises:
            PaddockError: the store cannot be read.
        """
        seen = await (self._looking.look(tenant, anew=True) if anew else self._looks.take(tenant))
        repairs = detect(seen.facts)
        left_alone = [(one, word) for one in repairs if (word := seen.ignored.get(one.id)) and word.covers(one)]
        silent = {one.id for one, _ in left_alone}
        found = Found(tuple(one for one in repairs if one.id not in silent), tuple(left_alone))
        if over := [name for name in seen.ignored.keys() - {one.id for one in repairs} if not is_fleeting(name)]:
            with suppress(StoreUnavailable):  # then another time
                await self._store.run(
                    lambda store: store.database.write(lambda tx: forget(tx, store.tenant, over)), tenant
                )
        return found

    async def mend(self, tenant: Tenant, repair: str, action: str, by: PrincipalId, *, operates_host: bool) -> Repair:
        """Press a button of a repair that is there right now.

        Raises:
            NotFound: it is not there any more: somebody was quicker, or its cause is gone.
            Denied: the button is for whoever operates the host.
            PaddockError: it did not help; says why.
        """
        one = await self._require(tenant, repair)
        pressed = one.press(action)
        if pressed is not None and pressed.host_only and not operates_host:
            raise Denied(
                "this changes a plugin for everybody on this host",
                code="auth.not_for_you",
                hint="ask whoever operates the host",
            )
        await self._mending.mend(tenant, one, action, by)
        return one

    async def ignore(self, tenant: Tenant, repair: str, by: PrincipalId) -> None:
        """Leave it alone as long as its cause is the one that there is now.

        Raises:
            NotFound: it is not there any more.
        """
        one = await self._require(tenant, repair)
        await self._store.run(
            lambda store: store.database.write(lambda tx: ignore(store.change(tx), one)), tenant, by=by
        )

    async def heed(self, tenant: Tenant, repair: str, by: PrincipalId) -> None:
        """Tell of it again.

        Raises:
            NotFound: nobody ignores it.
        """
        await self._store.run(
            lambda store: store.database.write(lambda tx: heed(store.change(tx), repair)), tenant, by=by
        )

    async def _require(self, tenant: Tenant, repair: str) -> Repair:
        seen = await self._looking.look(tenant)
        found = next((one for one in detect(seen.facts) if one.id == repair), None)
        if found is None:
            raise _gone()
        return found


def _gone() -> NotFound:
    return NotFound("this needs no repair any more", code="repair.gone", hint="look at the list again")
