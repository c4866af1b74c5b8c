"""Audited access to the store, shared by commands that open it themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant

if TYPE_CHECKING:
    from paddock.approvals.store import ApprovalTransaction
    from paddock.plugins.store.store import PluginStore
    from paddock.store.audited_transaction import AuditedTransaction
    from paddock.store.database import Transaction

T = TypeVar("T")

DEFAULT_TENANT_NAME = str(DEFAULT_TENANT)


def local_principal() -> PrincipalId:
    """Return the principal of the person at this terminal."""
    from paddock.cli.client.local_store import local_principal as principal

    return principal()


def read_store(unit: Callable[[Transaction], T]) -> T:
    """Run a read transaction."""
    from paddock.cli.client.local_store import open_for_read

    with open_for_read() as host:
        return host.plugins.database.read(unit)


def audited_transactions(store: PluginStore) -> Callable[[Transaction], AuditedTransaction]:
    """Return a function that turns a transaction into an audited change by the local principal."""
    return store.acting_as(local_principal()).audited_change


def approval_transaction(store: PluginStore, tx: Transaction) -> ApprovalTransaction:
    """Build a unit of work on approval requests, by the store's principal."""
    from paddock.approvals.store import ApprovalTransaction
    from paddock.ledger.write.append import TransactionLedger

    def ledger(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, store.clock, store.random, tenant, call, store.by)

    return ApprovalTransaction(tx, store.tenant, store.now(), store.clock, store.random, ledger)
