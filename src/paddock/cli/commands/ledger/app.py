"""`paddock ledger …`: show, verify, export and erase ledger entries."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paddock.cli.commands.ledger import tail
from paddock.cli.output.report import JsonOption, YesOption, handle_errors, print_json, print_message, styled
from paddock.core.ids import DEFAULT_TENANT

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at what happened, verify, export and erase it."
)
tail.register(app)

ChainTenantOption = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose chain.")]


@app.command("show", epilog="Example: paddock ledger show ID")
@handle_errors
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="The id of an entry (evt_…), of a call or of a request.")],
    *,
    tenant: ChainTenantOption = DEFAULT_TENANT,
    as_json: JsonOption = False,
) -> None:
    """Show one entry, or everything that was recorded of one call or request, in order."""
    from paddock.cli.client.one_shot import open_for_read
    from paddock.host.ledger.reader import no_entries_error
    from paddock.ledger.chain.verify import altered_text, find_altered
    from paddock.ledger.read.entries import find_entries

    with open_for_read() as host:
        entries, altered = host.plugins.database.read(
            lambda tx: (matching := find_entries(tx, name, tenant), find_altered(tx, matching))
        )
    if not entries:
        raise no_entries_error(name)
    if as_json:
        print_json({"entries": [entry.to_json() for entry in entries], "altered": [entry.id for entry in altered]})
    else:
        for entry in entries:
            tail.print_full_entry(entry)
    for entry in altered:
        print_message(f"{styled('altered:', 'red')} {altered_text(entry)} (paddock ledger verify)")


@app.command(
    "verify", epilog="Example: paddock ledger verify   ·   paddock ledger verify --anchor ./default.checkpoints.jsonl"
)
@handle_errors
def verify(
    *,
    tenant: Annotated[str | None, typer.Option("--tenant", metavar="NAME", help="Only this one's chain.")] = None,
    anchor: Annotated[
        list[Path] | None, typer.Option("--anchor", metavar="FILE", help="Checkpoints that you kept elsewhere too.")
    ] = None,
    public_key: Annotated[
        list[Path] | None,
        typer.Option("--public-key", metavar="FILE", help="The key to believe, instead of the one in this home."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Verify the chains. Exits 0 when all are sound, 1 tampered with, 2 cut short, 3 not readable."""
    from paddock.cli.commands.ledger.verify import (
        find_checkpoint_problem,
        print_findings,
        verify_with_progress,
        worst_verdict,
    )

    findings = verify_with_progress(tenant, anchor or [], public_key or [])
    unsigned = find_checkpoint_problem()
    if as_json:
        chains = [finding.to_json() for finding in findings]
        print_json({"verdict": worst_verdict(findings)[0], "chains": chains, "unsigned_because": unsigned})
    else:
        print_findings(findings, unsigned)
    raise typer.Exit(worst_verdict(findings)[1])


@app.command("export", epilog="Example: paddock ledger export ledger.jsonl")
@handle_errors
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where it goes; to stdout where none is named.")
    ] = None,
    *,
    tenant: ChainTenantOption = DEFAULT_TENANT,
    as_json: JsonOption = False,
) -> None:
    """Write a chain as JSON, one entry a line, then its checkpoints: all that somebody else needs to verify it."""
    from paddock.cli.commands.ledger.export import write_export

    lines, checkpoints = write_export(file, tenant)
    if file is not None:
        if as_json:
            print_json({"file": str(file), "tenant": tenant, "entries": lines, "checkpoints": checkpoints})
        print_message(f"{styled('✓', 'green')} wrote {lines:,} entries and {checkpoints:,} checkpoints to {file}")


@app.command("erase", epilog="Example: paddock ledger erase user:ann --reason 'asked to be forgotten' --yes")
@handle_errors
def erase(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Of whom nothing shall be known any more.")],
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.")],
    tenant: ChainTenantOption = DEFAULT_TENANT,
    yes: YesOption = False,
    as_json: JsonOption = False,
) -> None:
    """Erase what the entries say of a person. It cannot be undone; the chain stays whole, and says that it was done."""
    import shlex

    from paddock.cli.commands.ledger.erase import erase_principal
    from paddock.cli.output.consent_prompt import confirm

    arguments = " ".join(shlex.quote(word) for word in (principal, "--reason", reason))
    confirm(f"Erase for ever what the ledger says of {principal}?", yes=yes, retype=f"paddock ledger erase {arguments}")
    report = erase_principal(tenant, principal, reason)
    count, rows, remaining_log = report.forgotten.entries, report.forgotten.rows, report.remaining_log
    if as_json:
        print_json(
            {
                "tenant": tenant,
                "erased": count,
                "cleared": rows,
                "left_in": str(remaining_log) if remaining_log else None,
            }
        )
    rows_text = f", and {rows:,} {'row' if rows == 1 else 'rows'} beside them" if rows else ""
    arguments = f"erased what {count:,} {'entry' if count == 1 else 'entries'}{rows_text} said of {principal}"
    print_message(f"{styled('✓', 'green')} {arguments}")
    if remaining_log is not None:
        print_message(
            f"{styled('!', 'yellow')} {remaining_log} still holds it, since another process reads in the database"
        )
        print_message(
            f"  {styled('→', 'dim')} stop the daemon once: that file goes when the last process closes the database"
        )
