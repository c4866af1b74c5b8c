"""What the commands about tenants, people, groups, keys and consents share: whose, by whom, and how it is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from paddock.cli.output import document, say, styled
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant

if TYPE_CHECKING:
    from paddock.host.command import CommandHost
    from paddock.plugins.plugin_store import PluginStore
    from paddock.policy.approvals.unit import Unit
    from paddock.principals.change import Change
    from paddock.store.database import Transaction

T = TypeVar("T")

OfTenant = Annotated[str, typer.Option("--tenant", metavar="TENANT", help="Whose it is (default).")]
Removed = Annotated[bool, typer.Option("--remove", help="Take it away instead.")]
DEFAULT = str(DEFAULT_TENANT)


def at_this_machine() -> PrincipalId:
    """Who types this."""
    from paddock.cli.opening import at_this_machine as typing

    return typing()


def read(unit: Callable[[Transaction], T]) -> T:
    """Look something up."""
    from paddock.cli.opening import reading

    with reading() as host:
        return host.plugins.database.read(unit)


def change(tenant: str, unit: Callable[[Change], T]) -> T:
    """Change something, as whoever types this. A running daemon goes by it when this returns."""
    from paddock.cli.opening import reading

    with reading() as host:
        store = replace(host.plugins, tenant=Tenant(tenant))
        made = changes_in(store)
        changed = store.database.write(lambda tx: unit(made(tx)))
        put_into_effect(host)
        return changed


def put_into_effect(host: CommandHost) -> None:
    """Have a running daemon forget who it knows credentials to be of: what was taken away is gone at once."""
    from paddock.cli.daemon import running_daemon

    daemon = running_daemon(host.directories)
    if daemon is not None:
        with suppress(PaddockError):  # it looks by itself a moment later; this only makes it sooner
            daemon.post("/principals/changed")


def changes_in(store: PluginStore) -> Callable[[Transaction], Change]:
    """Makes each unit of work on a tenant's rows a change by whoever types this."""
    return store.used_by(at_this_machine()).change


def removal(tenant: str, work: Callable[[Change, Unit], T]) -> T:
    """Remove somebody or something that others may have asked, with what is theirs among requests for a yes.

    Nothing of it lies in the store's log afterwards, where nobody reads in that right now.
    """
    from paddock.cli.opening import reading

    with reading() as host:
        store = replace(host.plugins, tenant=Tenant(tenant))
        change = changes_in(store)

        def unit(tx: Transaction) -> T:
            return work(change(tx), unit_in(store, tx))

        removed = store.database.write(unit)
        put_into_effect(host)
        if (log := store.database.empty_log()) is not None:
            say(f"  {log} holds what was erased until whoever reads there now is done")
        return removed


def unit_in(store: PluginStore, tx: Transaction) -> Unit:
    """A unit of work about requests for a yes, by whoever uses the store."""
    from paddock.ledger.append import LedgerTable
    from paddock.policy.approvals.unit import Unit

    def told(tx: Transaction, tenant: Tenant, call: str | None) -> LedgerTable:
        return LedgerTable(tx, store.clock, store.random, tenant, call, store.by)

    return Unit(tx, store.tenant, store.now(), store.clock, store.random, told)


def done(as_json: bool, words: str, **facts: object) -> None:
    """What a change came to."""
    if as_json:
        document(facts)
    say(f"{styled('✓', 'green')} {words}")
