"""Audited access to the store, shared by commands that open it themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant

if TYPE_CHECKING:
    from paddock.approvals.store import ApprovalTransaction
    from paddock.plugins.store.store import PluginStore
    from paddock.store.database import Transaction

DEFAULT_TENANT_NAME = str(DEFAULT_TENANT)


def local_principal() -> PrincipalId:
    """Return the principal of the person at this terminal."""
    from paddock.cli.client.local_store import local_principal as principal

    return principal()


def approval_transaction(store: PluginStore, tx: Transaction) -> ApprovalTransaction:
    """Build a unit of work on approval requests, by the store's principal."""
    from paddock.approvals.store import ApprovalTransaction
    from paddock.ledger.write.append import TransactionLedger

    def ledger(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, store.clock, store.random, tenant, call, store.by)

    return ApprovalTransaction(tx, store.tenant, store.now(), store.clock, store.random, ledger)
