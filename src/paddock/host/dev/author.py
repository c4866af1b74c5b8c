"""Advice that was written for whoever runs a plugin, in words for the one who writes it and has it running here."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping

from paddock.core.errors import Conflict
from paddock.core.ids import PrincipalId
from paddock.core.secret import Secret
from paddock.ledger.write.append import TransactionLedger
from paddock.plugins.store.store import PluginStore
from paddock.runtime.diagnosis import see_log_hint
from paddock.secrets.rows import list_secrets
from paddock.secrets.vault import store_secret
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction

_AUTHOR_HINT_PREFIX = "the plugin's author has to "


def rephrase_for_author(hint: str, plugin: str) -> str:
    """The same advice: what its author has to do is the reader's to do, and its log is shown where they look."""
    if hint.startswith(_AUTHOR_HINT_PREFIX):
        return f"{hint.removeprefix(_AUTHOR_HINT_PREFIX)}, and save"
    if hint == see_log_hint(plugin):
        return "see what it wrote to its log, which is shown here"
    return hint


def secret_option_hint(secrets: Iterable[str]) -> str:
    """What to type so that the plugin has these secrets: it runs in a home of its own, where nobody set any."""
    return "start it again with " + " ".join(f"--secret {shlex.quote(name)}=@FILE" for name in secrets)


AUTHOR_ID = PrincipalId("local:author")


def store_given_secrets(store: PluginStore, keys: WrappingKeys, given: Mapping[str, Secret]) -> None:
    """Seal them. Blocks.

    Raises:
        Conflict: somebody else set one of them in this home: it would be gone for good.
    """

    def deed(tx: Transaction) -> AuditedTransaction:
        told = TransactionLedger(tx, store.clock, store.random, store.tenant, by=AUTHOR_ID)
        return AuditedTransaction(tx, store.tenant, AUTHOR_ID, store.now(), told)

    theirs = {
        one.name for one in store.database.read(lambda tx: list_secrets(tx, store.tenant)) if one.set_by != AUTHOR_ID
    }
    if taken := sorted(theirs & given.keys()):
        raise Conflict(
            f"this home has secrets of its own with these names: {', '.join(taken)}",
            code="dev.secret_set",
            hint="leave out --secret to use those, or run it without --home",
        )
    for name, value in given.items():
        for owner in ("", AUTHOR_ID):
            store_secret(store.database, keys, store.random, deed, name, owner, value)
