"""The actions behind repair buttons, by name, each recorded under the principal who pressed the button."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

from paddock.core.errors import Conflict, Unreachable
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.ledger.webhooks import WebhookService
from paddock.host.plugins.lifecycle import PluginLifecycle
from paddock.host.plugins.versions import VersionService
from paddock.host.repairs.repair import Repair
from paddock.host.secrets.secret_service import SecretService

ActionHandler: TypeAlias = Callable[[Tenant, str, PrincipalId], Awaitable[None]]
"""Performs an action on a subject of a tenant, on behalf of a principal."""


class RepairActions:
    """Performs repair actions.

    Args:
        lifecycle: Starts plugins.
        versions: Moves plugins between versions, and restores their files.
        webhooks: Manages webhooks.
        secrets: Rotates the wrapping key.
    """

    def __init__(
        self,
        lifecycle: PluginLifecycle,
        versions: VersionService,
        webhooks: WebhookService,
        secrets: SecretService,
    ) -> None:
        self._lifecycle = lifecycle
        self._versions = versions
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

    async def run(self, tenant: Tenant, repair: Repair, action: str, by: PrincipalId) -> None:
        """Press a button of a repair.

        Raises:
            Conflict: the repair has no such button.
            PaddockError: the action failed; says why.
        """
        button = repair.find_button(action)
        if button is None:
            raise Conflict("this repair no longer has that option", code="repair.other_way", hint="reload the list")
        await self.actions[button.action](tenant, repair.subject, by)

    async def restore(self, _tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        """Restore every version of a plugin whose files or environment changed, and start it again."""
        await self._versions.repair(plugin, by)

    async def _unpin(self, _tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        await self._versions.unpin(plugin, by)

    async def _enable(self, tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        await self._lifecycle.enable(plugin, tenant=tenant, by=by)

    async def _restart(self, tenant: Tenant, plugin: str, by: PrincipalId) -> None:
        await self._lifecycle.enable(plugin, tenant=tenant, anew=True, by=by)

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
                f"the receiver did not accept the event: {attempt.reason}",
                code="webhook.not_taken",
                hint="check the receiver, then send a test again",
            )
