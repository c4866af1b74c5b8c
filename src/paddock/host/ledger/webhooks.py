"""Webhook administration of all tenants, as the API uses it, and sending test events."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from paddock.core.clock import Clock, Random
from paddock.core.errors import Problem
from paddock.core.ids import PrincipalId, Tenant, new_id
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.core.secret import Secret
from paddock.plugins.store.store import PluginStore
from paddock.plugins.store.thread import StoreThread
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.transaction import Transaction
from paddock.webhooks import dead_letters, webhook
from paddock.webhooks.admin import DEFAULT_SECRET_OVERLAP, WebhookAdmin, webhook_problems
from paddock.webhooks.cloud_event import build_test_event
from paddock.webhooks.dead_letters import DeadLetterJson
from paddock.webhooks.retry import DeliveryAttempt
from paddock.webhooks.sender import ReceiverDestinations, WebhookSender
from paddock.webhooks.webhook import Webhook, WebhookRecordJson


class WebhookJson(WebhookRecordJson):
    """A receiver of a tenant's events, with the state of its deliveries."""

    dead: Annotated[NonNegativeInt, "The number of its dead letters."]
    next_at: Annotated[
        DateTime | None,
        "When a failed delivery is retried. A time in the past: now, or as soon as a daemon runs.",
    ]


def webhook_admin_for(store: PluginStore, keys: WrappingKeys, receivers: ReceiverDestinations) -> WebhookAdmin:
    """Build the webhook administration of the store's tenant, on behalf of the store's principal."""
    return WebhookAdmin(store.database, keys, receivers, store.clock, store.random, store.tenant, store.audited_change)


async def send_test_event(
    sender: WebhookSender, hook: Webhook, secrets: list[Secret], source: str, clock: Clock, random: Random
) -> DeliveryAttempt:
    """Send a test event, once."""
    event = build_test_event(hook.tenant, hook.id, new_id("evt", clock, random), clock.now(), source)
    async with sender.connect(hook.url) as connection:
        return await connection.send(event, secrets)


def webhook_to_json(hook: Webhook, dead: int = 0, next_at: str | None = None) -> WebhookJson:
    """Serialize a webhook, with its number of dead letters and, if it fails, its next attempt."""
    return {**hook.to_json(), "dead": dead, "next_at": next_at}


def read_webhook_json(tx: Transaction, hook: Webhook) -> WebhookJson:
    """Serialize a webhook, with its dead letters and next attempt from the database."""
    return webhook_to_json(hook, dead_letters.count(tx, hook.tenant, hook.id), webhook.next_attempt_at(tx, hook))


class WebhookService:
    """Manages webhooks of all tenants; each method works on one tenant.

    Args:
        store: Runs blocking work.
        keys: Seal signing secrets.
        receivers: Decides which destinations are allowed.
        sender: Sends test events.
        source: The name of this host in events.
    """

    def __init__(
        self,
        store: StoreThread,
        keys: WrappingKeys,
        receivers: ReceiverDestinations,
        sender: WebhookSender,
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

    async def list_all(self, tenant: Tenant) -> list[WebhookJson]:
        return await self._store.run(
            lambda store: store.database.read(
                lambda tx: [read_webhook_json(tx, hook) for hook in webhook.list_webhooks(tx, tenant)]
            )
        )

    async def find(self, tenant: Tenant, name: str) -> WebhookJson:
        """Return a webhook; raises NotFound."""
        return await self._store.run(
            lambda store: store.database.read(lambda tx: read_webhook_json(tx, webhook.require(tx, tenant, name)))
        )

    def problems(self, url: str, types: list[str], label: str) -> list[Problem]:
        """Return every mistake of a new webhook, by its field."""
        return webhook_problems(self._receivers, url, types, label)

    async def add(
        self, tenant: Tenant, by: PrincipalId, url: str, types: list[str], label: str, *, personal: bool
    ) -> tuple[WebhookJson, Secret]:
        """Add a webhook; see `WebhookAdmin.add`."""
        hook, secret = await self._store.run(
            lambda store: self._admin_for(store).add(url, types, label, personal=personal), tenant, by=by
        )
        return webhook_to_json(hook), secret

    async def rotate(
        self, tenant: Tenant, by: PrincipalId, name: str, overlap: timedelta = DEFAULT_SECRET_OVERLAP
    ) -> tuple[WebhookJson, Secret]:
        """Rotate a webhook's signing secret; see `WebhookAdmin.rotate`."""
        _, secret = await self._store.run(lambda store: self._admin_for(store).rotate(name, overlap), tenant, by=by)
        return await self.find(tenant, name), secret

    async def remove(self, tenant: Tenant, by: PrincipalId, name: str) -> None:
        await self._store.run(lambda store: self._admin_for(store).remove(name), tenant, by=by)

    async def set_enabled(
        self, tenant: Tenant, by: PrincipalId, name: str, *, on: bool, from_now: bool = False
    ) -> WebhookJson:
        await self._store.run(
            lambda store: self._admin_for(store).set_enabled(name, on=on, from_now=from_now), tenant, by=by
        )
        return await self.find(tenant, name)

    async def send_test(self, tenant: Tenant, name: str) -> DeliveryAttempt:
        """Send a test event and return the attempt. Raises NotFound."""

        def load(store: PluginStore) -> tuple[Webhook, list[Secret]]:
            admin = self._admin_for(store)
            hook = admin.find(name)
            return hook, admin.signing_secrets(hook)

        hook, secrets = await self._store.run(load, tenant)
        return await send_test_event(self._sender, hook, secrets, self._source, self._clock, self._random)

    async def list_dead_letters(self, tenant: Tenant, name: str, *, limit: int, after: int) -> list[DeadLetterJson]:
        """List a webhook's dead letters; raises NotFound."""

        def query(store: PluginStore) -> list[DeadLetterJson]:
            self._admin_for(store).find(name)
            letters = store.database.read(
                lambda tx: dead_letters.list_dead_letters(tx, tenant, name, limit=limit, after=after)
            )
            return [letter.to_json() for letter in letters]

        return await self._store.run(query, tenant)

    async def retry_dead_letters(self, tenant: Tenant, by: PrincipalId, name: str, event: str | None) -> int:
        return await self._store.run(lambda store: self._admin_for(store).retry(name, event), tenant, by=by)

    def _admin_for(self, store: PluginStore) -> WebhookAdmin:
        return webhook_admin_for(store, self._keys, self._receivers)
