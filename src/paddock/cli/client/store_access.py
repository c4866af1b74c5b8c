"""What the commands about tenants, people, groups, keys and consents share: whose, by whom, and how it is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from paddock.cli.output.report import print_json, print_message, styled
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant

if TYPE_CHECKING:
    from paddock.approvals.store import ApprovalTransaction
    from paddock.host.wiring.one_shot import OneShotHost
    from paddock.plugins.store.store import PluginStore
    from paddock.store.audited_transaction import AuditedTransaction
    from paddock.store.database import Transaction

T = TypeVar("T")

TenantOption = Annotated[str, typer.Option("--tenant", metavar="TENANT", help="Whose it is (default).")]
RemoveOption = Annotated[bool, typer.Option("--remove", help="Take it away instead.")]
DEFAULT_TENANT_NAME = str(DEFAULT_TENANT)


def local_principal() -> PrincipalId:
    """Who types this."""
    from paddock.cli.client.one_shot import local_principal as typing

    return typing()


def read_store(unit: Callable[[Transaction], T]) -> T:
    """Look something up."""
    from paddock.cli.client.one_shot import open_for_read

    with open_for_read() as host:
        return host.plugins.database.read(unit)


def change_store(tenant: str, unit: Callable[[AuditedTransaction], T]) -> T:
    """Change something, as whoever types this. A running daemon goes by it when this returns."""
    from paddock.cli.client.one_shot import open_for_read

    with open_for_read() as host:
        store = replace(host.plugins, tenant=Tenant(tenant))
        made = audited_transactions(store)
        changed = store.database.write(lambda tx: unit(made(tx)))
        invalidate_daemon_credentials(host)
        return changed


def invalidate_daemon_credentials(host: OneShotHost) -> None:
    """Have a running daemon forget who it knows credentials to be of: what was taken away is gone at once."""
    from paddock.cli.client.daemon_client import running_daemon

    daemon = running_daemon(host.directories)
    if daemon is not None:
        with suppress(PaddockError):  # it looks by itself a moment later; this only makes it sooner
            daemon.post("/principals/changed")


def audited_transactions(store: PluginStore) -> Callable[[Transaction], AuditedTransaction]:
    """Makes each unit of work on a tenant's rows a change by whoever types this."""
    return store.acting_as(local_principal()).audited_change


def remove_with_approvals(tenant: str, work: Callable[[AuditedTransaction, ApprovalTransaction], T]) -> T:
    """Remove somebody or something that others may have asked, with what is theirs among requests for a yes.

    Nothing of it lies in the store's log afterwards, where nobody reads in that right now.
    """
    from paddock.cli.client.one_shot import open_for_read

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
    """A unit of work about requests for a yes, by whoever uses the store."""
    from paddock.approvals.store import ApprovalTransaction
    from paddock.ledger.write.append import TransactionLedger

    def told(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
        return TransactionLedger(tx, store.clock, store.random, tenant, call, store.by)

    return ApprovalTransaction(tx, store.tenant, store.now(), store.clock, store.random, told)


def report_change(as_json: bool, words: str, **facts: object) -> None:
    """What a change came to."""
    if as_json:
        print_json(facts)
    print_message(f"{styled('✓', 'green')} {words}")
