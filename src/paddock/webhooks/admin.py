"""Making and changing webhooks, for a command or for the API: rows and signing secrets together, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, OperatorError
from paddock.core.events.webhooks import WebhookChanged
from paddock.core.ids import Tenant, new_id
from paddock.core.secret import Secret
from paddock.secrets.envelope import WrappingKey
from paddock.secrets.rows import AuditScope, set_secret
from paddock.secrets.vault import get_sealing_key
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.database import DirectDatabase, Transaction
from paddock.webhooks import webhook
from paddock.webhooks.cloud_event import parse_patterns
from paddock.webhooks.dead_letters import request_retry
from paddock.webhooks.sender import ReceiverDestinations
from paddock.webhooks.signature import CURRENT_SECRET, PREVIOUS_SECRET, generate_secret, read_signing_secrets
from paddock.webhooks.webhook import Webhook, secret_owner

MAX_LABEL_CHARS = 200
MAX_URL_CHARS = 2_048
DEFAULT_SECRET_OVERLAP = timedelta(hours=24)
MAX_SECRET_OVERLAP = timedelta(days=30)
_MAX_WRITE_ATTEMPTS = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WebhookAdmin:
    """Changes the webhooks of one tenant, in somebody's name. Blocks.

    Attributes:
        database: Where they are.
        keys: Seals their signing secrets.
        receivers: Where they may lead.
        tenant: Whose they are.
        deed: Makes a unit of work one of whoever changes them.
    """

    database: DirectDatabase
    keys: WrappingKeys
    receivers: ReceiverDestinations
    clock: Clock
    random: Random
    tenant: Tenant
    audited: Callable[[Transaction], AuditScope]

    def add(self, url: str, types: Iterable[str], label: str, *, personal: bool) -> tuple[Webhook, Secret]:
        """Have events sent somewhere; gives the signing secret, which is shown to nobody again.

        Raises:
            CallerError: the address is none.
            Denied: it leads to where no webhook may.
            OperatorError: no event has such a type; the label or the address is too long.
            Conflict: there are too many.
            PaddockError: nothing can be sealed; see `vault.sealing_key`.
        """
        if len(url) > MAX_URL_CHARS or len(label) > MAX_LABEL_CHARS or not label.isprintable():
            raise OperatorError(
                f"the address has {MAX_URL_CHARS} characters at most, and the label {MAX_LABEL_CHARS} that print",
                code="webhook.too_long",
            )
        host, patterns = self.receivers.validate_url(url).origin.host, parse_patterns(types)
        name, secret = new_id("wh", self.clock, self.random), generate_secret(self.random)

        def unit(deed: AuditScope, key: WrappingKey) -> Webhook | None:
            if set_secret(deed, CURRENT_SECRET, secret_owner(name), secret, key, self.random) is None:
                return None
            return webhook.add(deed, name, url, host, label, patterns, personal=personal)

        return self._write_sealed(unit), secret

    def rotate(self, name: str, keep: timedelta = DEFAULT_SECRET_OVERLAP) -> tuple[Webhook, Secret]:
        """Give a webhook another signing secret. What it had signs too for a while, so that nobody has to hurry.

        Raises:
            NotFound: there is none.
            PaddockError: the secret before cannot be opened while it is to be kept, or nothing can be sealed.
        """
        hook, secret = self.find(name), generate_secret(self.random)
        now = self.clock.now()
        until = now + min(keep, MAX_SECRET_OVERLAP)
        before = read_signing_secrets(self.database, self.keys, hook, now)[0] if until > now else None

        def unit(deed: AuditScope, key: WrappingKey) -> Webhook | None:
            webhook.require(deed.tx, deed.tenant, name)
            if set_secret(deed, CURRENT_SECRET, hook.owner, secret, key, self.random) is None:
                return None
            if before is not None:
                set_secret(deed, PREVIOUS_SECRET, hook.owner, before, key, self.random)
            webhook.keep_previous_secret(deed.tx, deed.tenant, name, until.isoformat())
            deed.publish.publish(WebhookChanged(webhook=name, change="rotated", reason=None, by=deed.by))
            return webhook.require(deed.tx, deed.tenant, name)

        return self._write_sealed(unit), secret

    def find(self, name: str) -> Webhook:
        """One webhook.

        Raises:
            NotFound: there is none of that name.
        """
        return self.database.read(lambda tx: webhook.require(tx, self.tenant, name))

    def remove(self, name: str) -> Webhook:
        """Tell it nothing any more; raises NotFound."""
        removed = self.database.write(lambda tx: webhook.remove(self.audited(tx), name))
        self.database.truncate_log()
        return removed

    def set_enabled(self, name: str, *, on: bool, from_now: bool = False) -> Webhook:
        """Switch it on or off; raises NotFound. See `webhook.switch`."""
        return self.database.write(lambda tx: webhook.set_enabled(self.audited(tx), name, on=on, from_now=from_now))

    def retry(self, name: str, event: str | None) -> int:
        """Have one dead letter tried again, or all; how many that are. Raises NotFound."""

        def unit(tx: Transaction) -> int:
            webhook.require(tx, self.tenant, name)
            return request_retry(tx, self.tenant, name, event)

        return self.database.write(unit)

    def signing_secrets(self, hook: Webhook) -> list[Secret]:
        """What signs for it right now; raises as `signing_secrets.opened` does."""
        return read_signing_secrets(self.database, self.keys, hook, self.clock.now())

    def _write_sealed(self, unit: Callable[[AuditScope, WrappingKey], T | None]) -> T:
        for _ in range(_MAX_WRITE_ATTEMPTS):  # more than one only where somebody rotates the key at the same time
            key = get_sealing_key(self.database, self.keys, self.audited)
            kept = self.database.write(lambda tx, key=key: unit(self.audited(tx), key))
            if kept is not None:
                return kept
        raise HostError("the key for secrets changes all the time", code="secret.key", hint="is a rotation going on?")
