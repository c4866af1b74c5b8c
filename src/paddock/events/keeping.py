"""Making and changing webhooks, for a command or for the API: rows and signing secrets together, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError, OperatorError
from paddock.core.events_webhooks import WebhookChanged
from paddock.core.ids import Tenant, new_id
from paddock.core.secret import Secret
from paddock.events import webhook
from paddock.events.dead_letters import ask_again
from paddock.events.patterns import checked
from paddock.events.sending import Receivers
from paddock.events.signature import new_secret
from paddock.events.signing_secrets import BEFORE, CURRENT, opened_directly
from paddock.events.webhook import Webhook, owner_of
from paddock.secrets.envelope import WrappingKey
from paddock.secrets.keys import Keys
from paddock.secrets.rows import Deed, set_secret
from paddock.secrets.vault import sealing_key
from paddock.store.database import DirectDatabase, Transaction

LONGEST_LABEL = 200
LONGEST_URL = 2_048
KEPT_BEFORE = timedelta(hours=24)
LONGEST_KEPT = timedelta(days=30)
_TRIES = 5

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Keeping:
    """Changes the webhooks of one tenant, in somebody's name. Blocks.

    Attributes:
        database: Where they are.
        keys: Seals their signing secrets.
        receivers: Where they may lead.
        tenant: Whose they are.
        deed: Makes a unit of work one of whoever changes them.
    """

    database: DirectDatabase
    keys: Keys
    receivers: Receivers
    clock: Clock
    random: Random
    tenant: Tenant
    deed: Callable[[Transaction], Deed]

    def add(self, url: str, types: Iterable[str], label: str, *, personal: bool) -> tuple[Webhook, Secret]:
        """Have events sent somewhere; gives the signing secret, which is shown to nobody again.

        Raises:
            CallerError: the address is none.
            Denied: it leads to where no webhook may.
            OperatorError: no event has such a type; the label or the address is too long.
            Conflict: there are too many.
            PaddockError: nothing can be sealed; see `vault.sealing_key`.
        """
        if len(url) > LONGEST_URL or len(label) > LONGEST_LABEL or not label.isprintable():
            raise OperatorError(
                f"the address has {LONGEST_URL} characters at most, and the label {LONGEST_LABEL} that print",
                code="webhook.too_long",
            )
        host, patterns = self.receivers.checked(url).origin.host, checked(types)
        name, secret = new_id("wh", self.clock, self.random), new_secret(self.random)

        def unit(deed: Deed, key: WrappingKey) -> Webhook | None:
            if set_secret(deed, CURRENT, owner_of(name), secret, key, self.random) is None:
                return None
            return webhook.add(deed, name, url, host, label, patterns, personal=personal)

        return self._sealed(unit), secret

    def rotate(self, name: str, keep: timedelta = KEPT_BEFORE) -> tuple[Webhook, Secret]:
        """Give a webhook another signing secret. What it had signs too for a while, so that nobody has to hurry.

        Raises:
            NotFound: there is none.
            PaddockError: the secret before cannot be opened while it is to be kept, or nothing can be sealed.
        """
        hook, secret = self.find(name), new_secret(self.random)
        now = self.clock.now()
        until = now + min(keep, LONGEST_KEPT)
        before = opened_directly(self.database, self.keys, hook, now)[0] if until > now else None

        def unit(deed: Deed, key: WrappingKey) -> Webhook | None:
            webhook.require(deed.tx, deed.tenant, name)
            if set_secret(deed, CURRENT, hook.owner, secret, key, self.random) is None:
                return None
            if before is not None:
                set_secret(deed, BEFORE, hook.owner, before, key, self.random)
            webhook.keep_before(deed.tx, deed.tenant, name, until.isoformat())
            deed.publish.publish(WebhookChanged(webhook=name, change="rotated", reason=None, by=deed.by))
            return webhook.require(deed.tx, deed.tenant, name)

        return self._sealed(unit), secret

    def find(self, name: str) -> Webhook:
        """One webhook.

        Raises:
            NotFound: there is none of that name.
        """
        return self.database.read(lambda tx: webhook.require(tx, self.tenant, name))

    def remove(self, name: str) -> Webhook:
        """Tell it nothing any more; raises NotFound."""
        removed = self.database.write(lambda tx: webhook.remove(self.deed(tx), name))
        self.database.empty_log()
        return removed

    def switch(self, name: str, *, on: bool, from_now: bool = False) -> Webhook:
        """Switch it on or off; raises NotFound. See `webhook.switch`."""
        return self.database.write(lambda tx: webhook.switch(self.deed(tx), name, on=on, from_now=from_now))

    def retry(self, name: str, event: str | None) -> int:
        """Have one dead letter tried again, or all; how many that are. Raises NotFound."""

        def unit(tx: Transaction) -> int:
            webhook.require(tx, self.tenant, name)
            return ask_again(tx, self.tenant, name, event)

        return self.database.write(unit)

    def signing(self, hook: Webhook) -> list[Secret]:
        """What signs for it right now; raises as `signing_secrets.opened` does."""
        return opened_directly(self.database, self.keys, hook, self.clock.now())

    def _sealed(self, unit: Callable[[Deed, WrappingKey], T | None]) -> T:
        for _ in range(_TRIES):  # more than one only where somebody rotates the key at the same time
            key = sealing_key(self.database, self.keys, self.deed)
            kept = self.database.write(lambda tx, key=key: unit(self.deed(tx), key))
            if kept is not None:
                return kept
        raise HostError("the key for secrets changes all the time", code="secret.key", hint="is a rotation going on?")
