"""`paddock ledger …`: show, verify, export and erase ledger entries."""

from __future__ import annotations

from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.commands.ledger import tail
from paddock.cli.output.report import print_json, print_message, styled
from paddock.core.ids import DEFAULT_TENANT

app = PaddockGroup("ledger", help="Look at what happened, verify, export and erase it.")
app.add_command(tail.tail)

chain_tenant_option = click.option("--tenant", default=DEFAULT_TENANT, metavar="NAME", help="Whose chain.")


@app.command("show", examples=["paddock ledger show ID"])
@click.argument("name", metavar="ID", help="The id of an entry (evt_…), of a call or of a request.")
@chain_tenant_option
@options.as_json
def show(name: str, *, tenant: str, as_json: bool) -> None:
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


@app.command("verify", examples=["paddock ledger verify", "paddock ledger verify --anchor ./default.checkpoints.jsonl"])
@click.option("--tenant", metavar="NAME", help="Only this one's chain.")
@click.option(
    "--anchor",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Checkpoints that you kept elsewhere too.",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="The key to believe, instead of the one in this home.",
)
@options.as_json
def verify(*, tenant: str | None, anchor: tuple[Path, ...], public_key: tuple[Path, ...], as_json: bool) -> None:
    """Verify the chains. Exits 0 when all are sound, 1 tampered with, 2 cut short, 3 not readable."""
    from paddock.cli.commands.ledger.verify import (
        find_checkpoint_problem,
        print_findings,
        verify_with_progress,
        worst_verdict,
    )

    findings = verify_with_progress(tenant, anchor, public_key)
    unsigned = find_checkpoint_problem()
    if as_json:
        chains = [finding.to_json() for finding in findings]
        print_json({"verdict": worst_verdict(findings)[0], "chains": chains, "unsigned_because": unsigned})
    else:
        print_findings(findings, unsigned)
    raise click.exceptions.Exit(worst_verdict(findings)[1])


@app.command("export", examples=["paddock ledger export ledger.jsonl"])
@click.argument(
    "file",
    type=click.Path(path_type=Path),
    required=False,
    metavar="[FILE]",
    help="Where it goes; to stdout where none is named.",
)
@chain_tenant_option
@options.as_json
def export(file: Path | None, *, tenant: str, as_json: bool) -> None:
    """Write a chain as JSON, one entry a line, then its checkpoints: all that somebody else needs to verify it."""
    from paddock.cli.commands.ledger.export import write_export

    lines, checkpoints = write_export(file, tenant)
    if file is not None:
        if as_json:
            print_json({"file": str(file), "tenant": tenant, "entries": lines, "checkpoints": checkpoints})
        print_message(f"{styled('✓', 'green')} wrote {lines:,} entries and {checkpoints:,} checkpoints to {file}")


@app.command("erase", examples=["paddock ledger erase user:ann --reason 'asked to be forgotten' --yes"])
@click.argument("principal", metavar="PRINCIPAL", help="Of whom nothing shall be known any more.")
@click.option("--reason", required=True, help="Why; it is recorded.")
@chain_tenant_option
@options.yes
@options.as_json
def erase(principal: str, *, reason: str, tenant: str, yes: bool, as_json: bool) -> None:
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
