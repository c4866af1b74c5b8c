"""Webhooks as the API sees them: the blocking work on a thread of the store, and one try through the real sender."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from paddock.core.clock import Clock, Random
from paddock.core.ids import PrincipalId, Tenant, new_id
from paddock.core.secret import Secret
from paddock.events import dead_letters, webhook
from paddock.events.cloud_event import trial
from paddock.events.keeping import KEPT_BEFORE, Keeping
from paddock.events.sending import Receivers, Sender
from paddock.events.verdict import Attempt
from paddock.events.webhook import Webhook
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.store_thread import StoreThread
from paddock.secrets.keys import Keys
from paddock.store.transaction import Transaction


def keeping_in(store: PluginStore, keys: Keys, receivers: Receivers) -> Keeping:
    """What changes the webhooks of the tenant whose store this is, in the name of whoever uses it."""
    return Keeping(store.database, keys, receivers, store.clock, store.random, store.tenant, store.change)


async def tried(
    sender: Sender, hook: Webhook, secrets: list[Secret], source: str, clock: Clock, random: Random
) -> Attempt:
    """Send an event that stands for nothing, once."""
    event = trial(hook.tenant, hook.id, new_id("evt", clock, random), clock.now(), source)
    async with sender.line_to(hook.url) as line:
        return await line.send(event, secrets)


def shown(hook: Webhook, dead: int = 0, next_at: str | None = None) -> dict[str, Any]:
    """A webhook as data, with how many dead letters it has, and when it is tried again where it fails."""
    return hook.to_json() | {"dead": dead, "next_at": next_at}


def shown_now(tx: Transaction, hook: Webhook) -> dict[str, Any]:
    """The same, by the rows."""
    return shown(hook, dead_letters.count(tx, hook.tenant, hook.id), webhook.next_at(tx, hook))


class Webhooks:
    """The webhooks of every tenant; each method is about one tenant's.

    Args:
        store: Runs what blocks.
        keys: Seals signing secrets.
        receivers: Where webhooks may lead.
        sender: Tries one out.
        source: How this host is called outside.
    """

    def __init__(
        self,
        store: StoreThread,
        keys: Keys,
        receivers: Receivers,
        sender: Sender,
        source: str,
        clock: Clock,
        random: Random,
    ) -> None:
        self._store = store
        self._keys = keys
        self._receivers = receivers
        self._sender = sender
        self._source = source
        self._clock = clock
        self._random = random

    async def all(self, tenant: Tenant) -> list[dict[str, Any]]:
        return await self._store.run(
            lambda store: store.database.read(lambda tx: [shown_now(tx, one) for one in webhook.webhooks(tx, tenant)])
        )

    async def show(self, tenant: Tenant, name: str) -> dict[str, Any]:
        """One of them; raises NotFound."""
        return await self._store.run(
            lambda store: store.database.read(lambda tx: shown_now(tx, webhook.require(tx, tenant, name)))
        )

    async def add(
        self, tenant: Tenant, by: PrincipalId, url: str, types: list[str], label: str, *, personal: bool
    ) -> tuple[dict[str, Any], Secret]:
        """Make one; see `Keeping.add`."""
        made, secret = await self._store.run(
            lambda store: self._of(store).add(url, types, label, personal=personal), tenant, by=by
        )
        return shown(made), secret

    async def rotate(
        self, tenant: Tenant, by: PrincipalId, name: str, keep: timedelta = KEPT_BEFORE
    ) -> tuple[dict[str, Any], Secret]:
        """Give it another signing secret; see `Keeping.rotate`."""
        _, secret = await self._store.run(lambda store: self._of(store).rotate(name, keep), tenant, by=by)
        return await self.show(tenant, name), secret

    async def remove(self, tenant: Tenant, by: PrincipalId, name: str) -> None:
        await self._store.run(lambda store: self._of(store).remove(name), tenant, by=by)

    async def switch(
        self, tenant: Tenant, by: PrincipalId, name: str, *, on: bool, from_now: bool = False
    ) -> dict[str, Any]:
        await self._store.run(lambda store: self._of(store).switch(name, on=on, from_now=from_now), tenant, by=by)
        return await self.show(tenant, name)

    async def test(self, tenant: Tenant, name: str) -> Attempt:
        """Send it an event that stands for nothing; whatever came of that. Raises NotFound."""

        def found(store: PluginStore) -> tuple[Webhook, list[Secret]]:
            kept = self._of(store)
            hook = kept.find(name)
            return hook, kept.signing(hook)

        hook, secrets = await self._store.run(found, tenant)
        return await tried(self._sender, hook, secrets, self._source, self._clock, self._random)

    async def dead(self, tenant: Tenant, name: str, *, limit: int, after: int) -> list[dict[str, Any]]:
        """Its dead letters; raises NotFound."""

        def unit(store: PluginStore) -> list[dict[str, Any]]:
            self._of(store).find(name)
            letters = store.database.read(
                lambda tx: dead_letters.dead_letters(tx, tenant, name, limit=limit, after=after)
            )
            return [letter.to_json() for letter in letters]

        return await self._store.run(unit, tenant)

    async def retry(self, tenant: Tenant, by: PrincipalId, name: str, event: str | None) -> int:
        return await self._store.run(lambda store: self._of(store).retry(name, event), tenant, by=by)

    def _of(self, store: PluginStore) -> Keeping:
        return keeping_in(store, self._keys, self._receivers)
