"""Helpers for a plugin's author in a dev host: hints rephrased for them, and secrets given on the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from paddock.core.action import Action
from paddock.core.errors import Conflict
from paddock.core.ids import PrincipalId
from paddock.core.secret import Secret
from paddock.ledger.write.append import TransactionLedger
from paddock.plugins.store.store import PluginStore
from paddock.secrets.rows import list_secrets
from paddock.secrets.vault import store_secret
from paddock.secrets.wrapping_keys import WrappingKeys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction

_AUTHOR_HINT_PREFIX = "the plugin's author has to "


def author_hint(hint: str, action: Action | None) -> str:
    """Rephrase a hint for the plugin's author: what "the author has to do" is theirs, and the log is on screen."""
    if hint.startswith(_AUTHOR_HINT_PREFIX):
        return f"{hint.removeprefix(_AUTHOR_HINT_PREFIX)}, and save"
    if action is not None and action.kind == "plugin.logs" and not hint:
        return "read its log, which is shown here"
    return hint


def give_secrets_action(folder: Path, secrets: Iterable[str]) -> Action:
    """Return the action that gives the plugin these secrets: its dev home has none set."""
    return Action.of("dev", path=str(folder), secrets=tuple(f"{name}=@FILE" for name in secrets))


AUTHOR_ID = PrincipalId("local:author")


def store_given_secrets(store: PluginStore, keys: WrappingKeys, secrets: Mapping[str, Secret]) -> None:
    """Seal secrets given on the command line. Blocking.

    Raises:
        Conflict: the home already has a secret of that name set by somebody else, which would be overwritten.
    """

    def change(tx: Transaction) -> AuditedTransaction:
        ledger = TransactionLedger(tx, store.clock, store.random, store.tenant, by=AUTHOR_ID)
        return AuditedTransaction(tx, store.tenant, AUTHOR_ID, store.now(), ledger)

    existing = {
        secret.name
        for secret in store.database.read(lambda tx: list_secrets(tx, store.tenant))
        if secret.set_by != AUTHOR_ID
    }
    if taken := sorted(existing & secrets.keys()):
        raise Conflict(
            f"this home has secrets of its own with these names: {', '.join(taken)}",
            code="dev.secret_set",
            hint="give no values to use those, or use a temporary home",
        )
    for name, value in secrets.items():
        for owner in ("", AUTHOR_ID):
            store_secret(store.database, keys, store.random, change, name, owner, value)
