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

from paddock.core.clock import Random
from paddock.core.secret import Secret

BEGIN = "whsec_"
_BYTES = 32


def new_secret(random: Random) -> Secret:
    """A signing secret, as receivers are configured with it."""
    return Secret(BEGIN + base64.b64encode(random.bytes(_BYTES)).decode())


def signed(name: str, timestamp: int, body: bytes, secrets: Sequence[Secret]) -> tuple[tuple[str, str], ...]:
    """The headers that prove where a body comes from, and when it was sent."""
    content = f"{name}.{timestamp}.".encode() + body
    signatures = [f"v1,{base64.b64encode(_signature(secret, content)).decode()}" for secret in secrets]
    return (
        ("webhook-id", name),
        ("webhook-timestamp", str(timestamp)),
        ("webhook-signature", " ".join(signatures)),
    )


def _signature(secret: Secret, content: bytes) -> bytes:
    key = base64.b64decode(secret.reveal().removeprefix(BEGIN))
    return hmac.new(key, content, hashlib.sha256).digest()
