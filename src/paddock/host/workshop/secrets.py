"""Secrets that an author gives the plugin they work on: sealed in the home of the workshop, as theirs and as the
tenant's, whatever the plugin allows."""

from __future__ import annotations

from collections.abc import Mapping

from paddock.core.ids import PrincipalId
from paddock.core.secret import Secret
from paddock.ledger.append import LedgerTable
from paddock.plugins.plugin_store import PluginStore
from paddock.principals.change import Change
from paddock.secrets.keys import Keys
from paddock.secrets.vault import keep_secret
from paddock.store.database import Transaction

AUTHOR = PrincipalId("local:author")


def keep_given(store: PluginStore, keys: Keys, given: Mapping[str, Secret]) -> None:
    """Seal them. Blocks."""

    def deed(tx: Transaction) -> Change:
        told = LedgerTable(tx, store.clock, store.random, store.tenant, by=AUTHOR)
        return Change(tx, store.tenant, AUTHOR, store.now(), told)

    for name, value in given.items():
        for owner in ("", AUTHOR):
            keep_secret(store.database, keys, store.random, deed, name, owner, value)
