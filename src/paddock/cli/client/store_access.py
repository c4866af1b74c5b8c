"""Audited access to the store, shared by the commands for tenants, people, groups, keys and consents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from paddock.cli.output.report import print_message
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant

if TYPE_CHECKING:
    from paddock.approvals.store import ApprovalTransaction
    from paddock.host.wiring.local_store import LocalStore
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


def change_store(tenant: str, unit: Callable[[AuditedTransaction], T]) -> T:
    """Run an audited change as the local principal. A running daemon applies it before this returns."""
    from paddock.cli.client.local_store import open_for_read

    with open_for_read() as host:
        store = replace(host.plugins, tenant=Tenant(tenant))
        audited = audited_transactions(store)
        result = store.database.write(lambda tx: unit(audited(tx)))
        invalidate_daemon_credentials(host)
        return result


def invalidate_daemon_credentials(host: LocalStore) -> None:
    """Have a running daemon drop its cached credentials, so that a revocation takes effect at once."""
    from paddock.cli.client.api_client import running_daemon

    daemon = running_daemon(host.directories)
    if daemon is not None:
        with suppress(PaddockError):  # its cache expires a moment later; this only makes it sooner
            daemon.post("/principals/changed")


def audited_transactions(store: PluginStore) -> Callable[[Transaction], AuditedTransaction]:
    """Return a function that turns a transaction into an audited change by the local principal."""
    return store.acting_as(local_principal()).audited_change


def remove_with_approvals(tenant: str, work: Callable[[AuditedTransaction, ApprovalTransaction], T]) -> T:
    """Remove a principal together with its approval requests.

    Afterwards the store's log contains none of it, unless another process reads there right now.
    """
    from paddock.cli.client.local_store import open_for_read

    with open_for_read() as host:
        store = replace(host.plugins, tenant=Tenant(tenant))
        change = audited_transactions(store)

        def unit(tx: Transaction) -> T:
            return work(change(tx), approval_transaction(store, tx))

        removed = store.database.write(unit)
        invalidate_daemon_credentials(host)
        if (log := store.database.truncate_log()) is not None:
            print_message(f"  {log} holds what was erased until whoever reads there now is done")
        return removed


def approval_transaction(store: PluginStore, tx: Transaction) -> ApprovalTransaction:
    """Build a unit of work on approval requests, by the store's principal."""
    from paddock.approvals.store import ApprovalTransaction
    from paddock.ledger.write.append import TransactionLedger

    def ledger(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, store.clock, store.random, tenant, call, store.by)

    return ApprovalTransaction(tx, store.tenant, store.now(), store.clock, store.random, ledger)
