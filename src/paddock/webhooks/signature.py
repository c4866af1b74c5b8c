"""Webhook signatures, as in the Standard Webhooks specification, and access to the signing secrets.

    webhook-id: evt_…            the same in every attempt, for deduplication by the receiver
    webhook-timestamp: 1767225600
    webhook-signature: v1,BASE64 v1,BASE64

Each signature is an HMAC-SHA-256 over `id.timestamp.body`. There are two while a secret is being rotated: a receiver
accepts the request if one of them is valid.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Sequence
from datetime import datetime

from paddock.core.action import Action
from paddock.core.clock import Random
from paddock.core.errors import HostError
from paddock.core.secret import Secret
from paddock.secrets.requirements import SecretScope
from paddock.secrets.vault import Vault, read_secret
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import DirectDatabase
from paddock.webhooks.webhook import Webhook

SECRET_PREFIX = "whsec_"  # noqa: S105 prefix of every secret
_SECRET_BYTES = 32

CURRENT_SECRET, PREVIOUS_SECRET = "signing", "signing.before"
_OWNER_SCOPE = (SecretScope.USER,)  # the webhook itself owns its secrets


def generate_secret(random: Random) -> Secret:
    """Generate a signing secret in the form that receivers are configured with."""
    return Secret(SECRET_PREFIX + base64.b64encode(random.bytes(_SECRET_BYTES)).decode())


def signature_headers(
    event_id: str, timestamp: int, body: bytes, secrets: Sequence[Secret]
) -> tuple[tuple[str, str], ...]:
    """Build the signature headers of a request."""
    content = f"{event_id}.{timestamp}.".encode() + body
    signatures = [f"v1,{base64.b64encode(_sign(secret, content)).decode()}" for secret in secrets]
    return (
        ("webhook-id", event_id),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", " ".join(signatures)),
    )


def _sign(secret: Secret, content: bytes) -> bytes:
    key = base64.b64decode(secret.reveal().removeprefix(SECRET_PREFIX))
    return hmac.new(key, content, hashlib.sha256).digest()


def active_secret_names(hook: Webhook, now: datetime) -> tuple[str, ...]:
    """Return the names of the secrets that sign now, newest first."""
    overlapping = hook.before_until is not None and now < datetime.fromisoformat(hook.before_until)
    return (CURRENT_SECRET, PREVIOUS_SECRET) if overlapping else (CURRENT_SECRET,)


async def open_signing_secrets(vault: Vault, hook: Webhook, now: datetime) -> list[Secret]:
    """Return the secrets that sign now.

    Raises:
        HostError: they cannot be opened, or do not exist.
        OperatorError: their wrapping key cannot be used.
    """
    values = [await vault.get(hook.tenant, hook.owner, name, _OWNER_SCOPE) for name in active_secret_names(hook, now)]
    return _require_secret(hook, [None if value is None else value.value for value in values])


def read_signing_secrets(database: DirectDatabase, keys: WrappingKeys, hook: Webhook, now: datetime) -> list[Secret]:
    """Return the secrets that sign now, for commands. Blocking; see `open_signing_secrets`."""
    return _require_secret(
        hook,
        [
            read_secret(database, keys, hook.tenant, hook.owner, name, _OWNER_SCOPE)
            for name in active_secret_names(hook, now)
        ],
    )


def _require_secret(hook: Webhook, secrets: list[Secret | None]) -> list[Secret]:
    if not secrets or secrets[0] is None:
        raise HostError(
            f"the signing secret of the webhook {hook.id} is missing",
            code="webhook.no_secret",
            action=Action.of("webhook.rotate", webhook=hook.id),
        )
    return [secret for secret in secrets if secret is not None]
