"""Administration of webhooks for the CLI and the API: rows and signing secrets change in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TypeVar

from msgspec import Struct

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, OperatorError, PaddockError, Problem
from paddock.core.events.webhooks import WebhookChanged
from paddock.core.ids import Tenant, new_id
from paddock.core.secret import Secret
from paddock.secrets.envelope import WrappingKey
from paddock.secrets.rows import set_secret
from paddock.secrets.vault import get_sealing_key
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import DirectDatabase, Transaction
from paddock.webhooks import webhook
from paddock.webhooks.cloud_event import MAX_PATTERNS, parse_patterns
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


def webhook_problems(receivers: ReceiverDestinations, url: str, types: Iterable[str], label: str) -> list[Problem]:
    """Return every mistake of a new webhook, by its field: `url`, `types` and `label`."""
    problems: list[Problem] = []
    if not url:
        problems.append(Problem("url", "a URL is required", "such as https://hooks.example.com/paddock", "required"))
    elif len(url) > MAX_URL_CHARS:
        problems.append(Problem("url", f"is longer than {MAX_URL_CHARS:,} characters"))
    else:
        try:
            receivers.validate_url(url)
        except PaddockError as error:
            problems.append(error.as_problem("url"))
    patterns = list(types)
    for index, pattern in enumerate(patterns[:MAX_PATTERNS]):
        try:
            parse_patterns([pattern])
        except OperatorError as error:
            problems.append(error.as_problem(f"types[{index}]"))
    if len(patterns) > MAX_PATTERNS:
        problems.append(Problem("types", f"no more than {MAX_PATTERNS} types can be named", "use plugin.* or *"))
    if len(label) > MAX_LABEL_CHARS or not label.isprintable():
        problems.append(Problem("label", f"has more than {MAX_LABEL_CHARS} characters, or some that do not print"))
    return problems


class WebhookAdmin(Struct, frozen=True):
    """Changes the webhooks of one tenant on behalf of a principal. Blocking.

    Attributes:
        database: Holds webhooks and secrets.
        keys: Seal the signing secrets.
        receivers: Destinations that are allowed.
        tenant: The owner of the webhooks.
        audited: Wraps a transaction with the principal that makes the change.
    """

    database: DirectDatabase
    keys: WrappingKeys
    receivers: ReceiverDestinations
    clock: Clock
    random: Random
    tenant: Tenant
    audited: Callable[[Transaction], AuditedTransaction]

    def add(self, url: str, types: Iterable[str], label: str, *, personal: bool) -> tuple[Webhook, Secret]:
        """Add a webhook; returns it with its signing secret, which is never shown again.

        Raises:
            CallerError: the URL is malformed.
            Denied: its destination is not allowed.
            OperatorError: an event type is unknown; the label or the URL is too long.
            Conflict: there are too many.
            PaddockError: the secret cannot be sealed; see `get_sealing_key`.
        """
        if len(url) > MAX_URL_CHARS or len(label) > MAX_LABEL_CHARS or not label.isprintable():
            raise OperatorError(
                f"the address has {MAX_URL_CHARS} characters at most, and the label {MAX_LABEL_CHARS} that print",
                code="webhook.too_long",
            )
        host, patterns = self.receivers.validate_url(url).origin.host, parse_patterns(types)
        webhook_id, secret = new_id("wh", self.clock, self.random), generate_secret(self.random)

        def unit(audit: AuditedTransaction, key: WrappingKey) -> Webhook | None:
            if set_secret(audit, CURRENT_SECRET, secret_owner(webhook_id), secret, key, self.random) is None:
                return None
            return webhook.add(audit, webhook_id, url, host, label, patterns, personal=personal)

        return self._write_sealed(unit), secret

    def rotate(self, webhook_id: str, overlap: timedelta = DEFAULT_SECRET_OVERLAP) -> tuple[Webhook, Secret]:
        """Replace the signing secret. The previous one signs too for a while, so that receivers can switch over.

        Raises:
            NotFound: there is no such webhook.
            PaddockError: the previous secret cannot be opened but is to be kept, or nothing can be sealed.
        """
        hook, secret = self.find(webhook_id), generate_secret(self.random)
        now = self.clock.now()
        overlap_ends = now + min(overlap, MAX_SECRET_OVERLAP)
        previous = read_signing_secrets(self.database, self.keys, hook, now)[0] if overlap_ends > now else None

        def unit(audit: AuditedTransaction, key: WrappingKey) -> Webhook | None:
            webhook.require(audit.tx, audit.tenant, webhook_id)
            if set_secret(audit, CURRENT_SECRET, hook.owner, secret, key, self.random) is None:
                return None
            if previous is not None:
                set_secret(audit, PREVIOUS_SECRET, hook.owner, previous, key, self.random)
            webhook.keep_previous_secret(audit.tx, audit.tenant, webhook_id, overlap_ends.isoformat())
            audit.publish.publish(WebhookChanged(webhook=webhook_id, change="rotated", reason=None, by=audit.by))
            return webhook.require(audit.tx, audit.tenant, webhook_id)

        return self._write_sealed(unit), secret

    def find(self, webhook_id: str) -> Webhook:
        """Return one webhook.

        Raises:
            NotFound: there is no such webhook.
        """
        return self.database.read(lambda tx: webhook.require(tx, self.tenant, webhook_id))

    def remove(self, webhook_id: str) -> Webhook:
        """Remove a webhook with its secrets; raises NotFound."""
        removed = self.database.write(lambda tx: webhook.remove(self.audited(tx), webhook_id))
        self.database.truncate_log()
        return removed

    def set_enabled(self, webhook_id: str, *, on: bool, from_now: bool = False) -> Webhook:
        """Enable or disable a webhook; raises NotFound. See `webhook.set_enabled`."""
        return self.database.write(
            lambda tx: webhook.set_enabled(self.audited(tx), webhook_id, on=on, from_now=from_now)
        )

    def retry(self, webhook_id: str, event_id: str | None) -> int:
        """Request a retry of one dead letter, or of all; returns their number. Raises NotFound."""

        def unit(tx: Transaction) -> int:
            webhook.require(tx, self.tenant, webhook_id)
            return request_retry(tx, self.tenant, webhook_id, event_id)

        return self.database.write(unit)

    def signing_secrets(self, hook: Webhook) -> list[Secret]:
        """Return the active signing secrets; raises as `read_signing_secrets` does."""
        return read_signing_secrets(self.database, self.keys, hook, self.clock.now())

    def _write_sealed(self, unit: Callable[[AuditedTransaction, WrappingKey], T | None]) -> T:
        for _ in range(_MAX_WRITE_ATTEMPTS):  # repeated only if the sealing key is rotated meanwhile
            key = get_sealing_key(self.database, self.keys, self.audited)
            written = self.database.write(lambda tx, key=key: unit(self.audited(tx), key))
            if written is not None:
                return written
        raise HostError("the key for secrets changes all the time", code="secret.key", hint="is a rotation going on?")
