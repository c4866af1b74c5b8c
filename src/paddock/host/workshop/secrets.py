"""Secrets that an author gives the plugin they work on: sealed in the home of the workshop, as theirs and as the
tenant's, whatever the plugin allows."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.core.errors import Conflict
from paddock.core.ids import PrincipalId
from paddock.core.secret import Secret
from paddock.ledger.append import LedgerTable
from paddock.plugins.plugin_store import PluginStore
from paddock.principals.change import Change
from paddock.secrets.keys import Keys
from paddock.secrets.rows import secrets
from paddock.secrets.vault import keep_secret
from paddock.store.database import Transaction

AUTHOR = PrincipalId("local:author")


def keep_given(store: PluginStore, keys: Keys, given: Mapping[str, Secret]) -> None:
    """Seal them. Blocks.

    Raises:
        Conflict: somebody else set one of them in this home: it would be gone for good.
    """

    def deed(tx: Transaction) -> Change:
        told = LedgerTable(tx, store.clock, store.random, store.tenant, by=AUTHOR)
        return Change(tx, store.tenant, AUTHOR, store.now(), told)

    theirs = {one.name for one in store.database.read(lambda tx: secrets(tx, store.tenant)) if one.set_by != AUTHOR}
    if taken := sorted(theirs & given.keys()):
        raise Conflict(
            f"this home has secrets of its own with these names: {', '.join(taken)}",
            code="dev.secret_set",
            hint="leave out --secret to use those, or run it without --home",
        )
    for name, value in given.items():
        for owner in ("", AUTHOR):
            keep_secret(store.database, keys, store.random, deed, name, owner, value)
