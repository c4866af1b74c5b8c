"""What a button of a repair does: each action by its name, in the name of whoever pressed it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, TypeAlias

from paddock.core.errors import Conflict, Unreachable
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.plugins.versions import VersionService
from paddock.host.repairs.repair import Repair
from paddock.plugins.manage.repair import repair_plugin
from paddock.plugins.store.thread import StoreThread

ActionHandler: TypeAlias = Callable[[Tenant, str, PrincipalId], Awaitable[None]]
"""Does something about a subject of a tenant, in somebody's name."""


class PluginEnabler(Protocol):
    """Starts plugins; a `Host` is one."""

    async def enable(
        self, name: str, *, tenant: Tenant = DEFAULT_TENANT, anew: bool = False, by: PrincipalId | None = None
    ) -> object: ...


class SecretRotator(Protocol):
    """Puts secrets under another key."""

    async def rotate(self, by: PrincipalId) -> object: ...


class RepairActions:
    """Carries out actions.

    Args:
        store: Where plugins are installed.
        switches: Starts them.
        versions: Moves them between versions.
        put_into_effect: Looks at a plugin's rows and files again, and returns when it runs or is known not to.
        webhooks: Tells others of events.
        secrets: Rotates their key.
    """

    def __init__(
        self,
        store: StoreThread,
        switches: PluginEnabler,
        versions: VersionService,
        put_into_effect: Callable[[str], Awaitable[None]],
        webhooks: WebhookService,
        secrets: SecretRotator,
    ) -> None:
        self._store = store
        self._enabler = switches
        self._versions = versions
        self._apply_change = put_into_effect
        self._webhooks = webhooks
        self._secrets = secrets
        self.actions: Mapping[str, ActionHandler] = {
            "restore": self.restore,
            "unpin": self._unpin,
            "enable": self._enable,
            "restart": self._restart,
            "rotate": self._rotate,
            "webhook.on": self._switch_on,
            "webhook.remove": self._remove,
            "webhook.retry": self._retry,
            "webhook.test": self._test,
        }

    async def run(self, tenant: Tenant, one: Repair, action: str, by: PrincipalId) -> None:
        """Press a button of a repair.

        Raises:
            Conflict: it has no such button.
            PaddockError: it did not help; says why.
        """
        pressed = one.find_button(action)
        if pressed is None:
            raise Conflict("this cannot be done about it any more", code="repair.other_way", hint="look at it again")
        await self.actions[pressed.action](tenant, one.subject, by)

    async def restore(self, _tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        """Put back every version of a plugin whose files or environment changed, and have it run again."""
        await self._store.run(lambda store: repair_plugin(store, plugin), DEFAULT_TENANT, by=by)
        await self._apply_change(plugin)

    async def _unpin(self, _tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        await self._versions.pin(plugin, None, by)

    async def _enable(self, tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        await self._enabler.enable(plugin, tenant=tenant, by=by)

    async def _restart(self, tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        await self._enabler.enable(plugin, tenant=tenant, anew=True, by=by)

    async def _rotate(self, _tenant: Tenant, _subject: str, by: PrincipalId) -> None:
        await self._secrets.rotate(by)

    async def _switch_on(self, tenant: Tenant, webhook: str, by: PrincipalId) -> None:
        await self._webhooks.set_enabled(tenant, by, webhook, on=True)

    async def _remove(self, tenant: Tenant, webhook: str, by: PrincipalId) -> None:
        await self._webhooks.remove(tenant, by, webhook)

    async def _retry(self, tenant: Tenant, webhook: str, by: PrincipalId) -> None:
        await self._webhooks.retry_dead_letters(tenant, by, webhook, None)

    async def _test(self, tenant: Tenant, webhook: str, _by: PrincipalId) -> None:
        attempt = await self._webhooks.send_test(tenant, webhook)
        if not attempt.succeeded:
            raise Unreachable(
                f"the receiver did not take it: {attempt.reason}",
                code="webhook.not_taken",
                hint="look at the receiver, then send a test again",
            )
