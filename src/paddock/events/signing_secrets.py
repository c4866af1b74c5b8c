"""The signing secrets of webhooks: sealed like every secret, opened to sign alone, and shown once, when made."""

from __future__ import annotations

from datetime import datetime

from paddock.core.errors import HostError
from paddock.core.secret import Secret
from paddock.events.webhook import Webhook
from paddock.secrets.declared import Scope
from paddock.secrets.keys import Keys
from paddock.secrets.vault import Vault, look_up
from paddock.store.database import DirectDatabase

CURRENT, BEFORE = "signing", "signing.before"
_OWN = (Scope.USER,)  # nobody's but the webhook's


def in_use(hook: Webhook, now: datetime) -> tuple[str, ...]:
    """The names of those that sign right now, the newest first."""
    kept = hook.before_until is not None and now < datetime.fromisoformat(hook.before_until)
    return (CURRENT, BEFORE) if kept else (CURRENT,)


async def opened(vault: Vault, hook: Webhook, now: datetime) -> list[Secret]:
    """Those that sign right now.

    Raises:
        HostError: they cannot be opened, or are not there.
        OperatorError: their key cannot be used.
    """
    given = [await vault.get(hook.tenant, hook.owner, name, _OWN) for name in in_use(hook, now)]
    return _required(hook, [None if one is None else one.value for one in given])


def opened_directly(database: DirectDatabase, keys: Keys, hook: Webhook, now: datetime) -> list[Secret]:
    """The same for a command. Blocks."""
    return _required(hook, [look_up(database, keys, hook.tenant, hook.owner, name, _OWN) for name in in_use(hook, now)])


def _required(hook: Webhook, found: list[Secret | None]) -> list[Secret]:
    if not found or found[0] is None:
        raise HostError(
            f"the webhook {hook.id} has no signing secret any more",
            code="webhook.no_secret",
            hint=f"paddock webhook rotate {hook.id}",
        )
    return [one for one in found if one is not None]
