"""Signing what a webhook is told, as the Standard Webhooks specification has it. Pure.

    webhook-id: evt_…            the same in every attempt, so that a receiver knows what it has had
    webhook-timestamp: 1767225600
    webhook-signature: v1,BASE64 v1,BASE64

Each signature is an HMAC-SHA-256 over `id.timestamp.body`. There are two while a secret is being replaced: a receiver
takes the request where one of them is right.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from paddock.core.clock import Random
from paddock.core.errors import HostError
from paddock.core.secret import Secret
from paddock.secrets.requirements import SecretScope
from paddock.secrets.vault import Vault, read_secret
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import DirectDatabase
from paddock.webhooks.webhook import Webhook

SECRET_PREFIX = "whsec_"  # noqa: S105 what every secret begins with
_SECRET_BYTES = 32


def generate_secret(random: Random) -> Secret:
    """A signing secret, as receivers are configured with it."""
    return Secret(SECRET_PREFIX + base64.b64encode(random.bytes(_SECRET_BYTES)).decode())


def signature_headers(name: str, timestamp: int, body: bytes, secrets: Sequence[Secret]) -> tuple[tuple[str, str], ...]:
    """The headers that prove where a body comes from, and when it was sent."""
    content = f"{name}.{timestamp}.".encode() + body
    signatures = [f"v1,{base64.b64encode(_sign(secret, content)).decode()}" for secret in secrets]
    return (
        ("webhook-id", name),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", " ".join(signatures)),
    )


def _sign(secret: Secret, content: bytes) -> bytes:
    key = base64.b64decode(secret.reveal().removeprefix(SECRET_PREFIX))
    return hmac.new(key, content, hashlib.sha256).digest()


CURRENT_SECRET, PREVIOUS_SECRET = "signing", "signing.before"
_OWNER_SCOPE = (SecretScope.USER,)  # nobody's but the webhook's


def active_secret_names(hook: Webhook, now: datetime) -> tuple[str, ...]:
    """The names of those that sign right now, the newest first."""
    kept = hook.before_until is not None and now < datetime.fromisoformat(hook.before_until)
    return (CURRENT_SECRET, PREVIOUS_SECRET) if kept else (CURRENT_SECRET,)


async def open_signing_secrets(vault: Vault, hook: Webhook, now: datetime) -> list[Secret]:
    """Those that sign right now.

    Raises:
        HostError: they cannot be opened, or are not there.
        OperatorError: their key cannot be used.
    """
    given = [await vault.get(hook.tenant, hook.owner, name, _OWNER_SCOPE) for name in active_secret_names(hook, now)]
    return _require_secret(hook, [None if one is None else one.value for one in given])


def read_signing_secrets(database: DirectDatabase, keys: WrappingKeys, hook: Webhook, now: datetime) -> list[Secret]:
    """The same for a command. Blocks."""
    return _require_secret(
        hook,
        [
            read_secret(database, keys, hook.tenant, hook.owner, name, _OWNER_SCOPE)
            for name in active_secret_names(hook, now)
        ],
    )


def _require_secret(hook: Webhook, found: list[Secret | None]) -> list[Secret]:
    if not found or found[0] is None:
        raise HostError(
            f"the webhook {hook.id} has no signing secret any more",
            code="webhook.no_secret",
            hint=f"paddock webhook rotate {hook.id}",
        )
    return [one for one in found if one is not None]
