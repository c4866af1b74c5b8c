"""`paddock run doubt …`: effects of which nobody knows whether they have happened, and saying so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, TenantOption, read_store
from paddock.cli.commands import resolve
from paddock.cli.commands.resolve import UnresolvedCallArgument, mark_killed_calls_in_doubt, print_call_values
from paddock.cli.output.report import (
    JsonOption,
    format_table,
    handle_errors,
    print_json,
    print_message,
    print_result,
    styled,
)
from paddock.core.ids import Tenant
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paddock.gate.idempotency.records import IdempotencyRecord, RecoverySchedule
    from paddock.store.database import Transaction

unresolved_app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="See calls that may have happened, and say whether they have."
)

_COLUMNS = ("CALL", "WHAT", "KEY", "STARTED", "BY", "RECOVERY", "WHY")
_HIDDEN_WHEN_NARROW = ("BY", "STARTED", "RECOVERY", "KEY")  # on a narrow terminal


@unresolved_app.command(
    "list", epilog="Examples: paddock run doubt list --json   ·   paddock run doubt list --resolved"
)
@handle_errors
def list_(
    *,
    resolved: Annotated[
        bool,
        typer.Option(
            "--resolved", help="Instead, those of which is known by now what became of them, the latest first."
        ),
    ] = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000, help="How many at most.")] = 100,
    after: Annotated[str | None, typer.Option(metavar="CALL", help="Only those after this one.")] = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """List the calls of which nobody knows whether they have happened, the oldest first."""
    from paddock.gate.idempotency import records
    from paddock.gate.idempotency.resolve import record_json, require_record
    from paddock.gate.idempotency.states import EffectState
    from paddock.principals.tenants import require_tenant

    def unit(tx: Transaction) -> list[IdempotencyRecord]:
        of = require_tenant(tx, tenant).name
        if after is not None:
            require_record(tx, of, after)
        if resolved:
            return records.list_resolved(tx, of, after=after, limit=count)
        return records.list_in_state(tx, EffectState.IN_DOUBT, tenant=of, after=after, limit=count)

    mark_killed_calls_in_doubt()
    doubts = [record_json(effect) for effect in read_store(unit)]
    more = doubts[-1]["call_id"] if len(doubts) == count else None
    if as_json:
        print_json({"tenant": tenant, "doubts": doubts, "next": more})
        return
    if not doubts:
        print_message("nothing was in doubt" if resolved else "nothing is in doubt")
        return
    rows = [[printable(cell, 100) for cell in _table_row(one)] for one in doubts]
    for line in format_table(_COLUMNS, rows, spare=_HIDDEN_WHEN_NARROW):
        print_result(line)
    if more:
        print_message(f"there may be more: --after {more}")
    print_message(f"look at one: paddock run doubt show {doubts[0]['call_id']}{tenant_option(tenant)}")


def _table_row(one: Mapping[str, Any]) -> list[str]:
    what, started = f"{one['plugin']} {one['callable']}", (one["started_at"] or "")[:19]
    key = "" if one["key"] == one["call_id"] else one["key"]
    error: Mapping[str, Any] = one["error"] or {}
    why = error.get("message", "") if one["resolution"] is None else _resolution_text(one)
    return [one["call_id"], what, key, started, one["principal"] or "", one["recovery"], why]


def _resolution_text(one: Mapping[str, Any]) -> str:
    """What became of it, and who says so."""
    happened = "has happened" if one["state"] == "succeeded" else "has not happened"
    return f"{happened}, says {one['resolved_by'] or one['resolution']}"


@unresolved_app.command("show", epilog="Example: paddock run doubt show CALL")
@handle_errors
def show(
    call: UnresolvedCallArgument, *, tenant: TenantOption = DEFAULT_TENANT_NAME, as_json: JsonOption = False
) -> None:
    """Show what is known of the effect of a call, with what it was made with and how finding out goes."""
    from paddock.gate.idempotency import records
    from paddock.gate.idempotency.resolve import record_json, require_record
    from paddock.gate.idempotency.states import EffectState

    def unit(tx: Transaction) -> tuple[IdempotencyRecord, RecoverySchedule | None]:
        effect = require_record(tx, Tenant(tenant), call)
        return effect, records.recovery_schedule(tx, effect) if effect.state is EffectState.IN_DOUBT else None

    mark_killed_calls_in_doubt()
    known, search = read_store(unit)
    effect = record_json(known)
    if as_json:
        print_json(effect | {"search": search and search._asdict()})
        return
    name = f"{effect['plugin']} {effect['callable']}"
    print_result(styled(f"{printable(name, 200)}: {effect['state'].replace('_', ' ')}", "bold"))
    for label in ("key", "principal", "started_at", "ended_at", "recovery", "resolution", "resolved_by"):
        if effect[label] is not None:
            print_result(f"  {label.replace('_', ' '):12} {printable(str(effect[label]), 300)}")
    if effect["error"]:
        print_result(f"  {'why':12} {printable(str(effect['error'].get('message', '')), 400)}")
    by_itself = effect["state"] == "in_doubt" and effect["recovery"] != "none"
    if by_itself:
        print_result(f"  {'finding out':12} {_recovery_text(search)}")
    print_call_values(effect, print_result)
    if effect["state"] != "in_doubt":
        return
    if by_itself:
        print_message(_recovery_owner_text())
    print_message(f"{'or ' if by_itself else ''}look whether it has happened, then say so:")
    print_message(f"  paddock run doubt resolve {call} --happened{tenant_option(tenant)}")
    print_message(f"  paddock run doubt resolve {call} --not-happened{tenant_option(tenant)}")


def _recovery_text(search: RecoverySchedule | None) -> str:
    if search is None:
        return "nobody tries any more; a daemon does once more when it starts"
    tried = "not tried yet"
    if search.tries:
        tried = f"tried {search.tries} {'time' if search.tries == 1 else 'times'}"
        tried += f", the last time: {search.last_error}" if search.last_error else ""
    return f"{tried}; {'somebody is at it now' if search.now else f'due at {search.next_at[:19]} UTC'}"


def _recovery_owner_text() -> str:
    from paddock.cli.client.daemon_client import running_daemon

    if running_daemon() is not None:
        return "the daemon finds out by itself; wait,"
    return "a daemon finds out by itself, and none runs for this home: paddock serve;"


unresolved_app.command(
    "resolve",
    epilog="Examples: paddock run doubt resolve CALL --happened   ·   paddock run doubt resolve CALL --not-happened",
)(resolve.resolve)
