"""`paddock ledger …`: what happened, and whether that is still what was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paddock.cli import ledger_tail
from paddock.cli.output import AsJson, Yes, document, reporting, say, styled
from paddock.core.ids import DEFAULT_TENANT

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at what happened, verify, export and erase it."
)
ledger_tail.register(app)

OfTenant = Annotated[str, typer.Option("--tenant", metavar="NAME", help="Whose chain.")]


@app.command("show", epilog="Example: paddock ledger show ID")
@reporting
def show(
    name: Annotated[str, typer.Argument(metavar="ID", help="The id of an entry (evt_…), of a call or of a request.")],
    *,
    tenant: OfTenant = DEFAULT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Show one entry, or everything that was recorded of one call or request, in order."""
    from paddock.cli.opening import reading
    from paddock.host.ledger_reading import nothing_of
    from paddock.ledger.feed import told_of
    from paddock.ledger.spot_check import altered, in_words

    with reading() as host:
        entries, forged = host.plugins.database.read(
            lambda tx: (found := told_of(tx, name, tenant), altered(tx, found))
        )
    if not entries:
        raise nothing_of(name)
    if as_json:
        document({"entries": [entry.to_json() for entry in entries], "altered": [entry.id for entry in forged]})
    else:
        for entry in entries:
            ledger_tail.show_whole(entry)
    for entry in forged:
        say(f"{styled('altered:', 'red')} {in_words(entry)} (paddock ledger verify)")


@app.command(
    "verify", epilog="Example: paddock ledger verify   ·   paddock ledger verify --anchor ./default.checkpoints.jsonl"
)
@reporting
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
    as_json: AsJson = False,
) -> None:
    """Verify the chains. Exits 0 when all are sound, 1 tampered with, 2 cut short, 3 not readable."""
    from paddock.cli.ledger_verify import findings, show_findings, unsigned_because, worst

    found = findings(tenant, anchor or [], public_key or [])
    unsigned = unsigned_because()
    if as_json:
        chains = [finding.to_json() for finding in found]
        document({"verdict": worst(found)[0], "chains": chains, "unsigned_because": unsigned})
    else:
        show_findings(found, unsigned)
    raise typer.Exit(worst(found)[1])


@app.command("export", epilog="Example: paddock ledger export ledger.jsonl")
@reporting
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Where it goes; to stdout where none is named.")
    ] = None,
    *,
    tenant: OfTenant = DEFAULT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Write a chain as JSON, one entry a line, then its checkpoints: all that somebody else needs to verify it."""
    from paddock.cli.ledger_export import export_to

    lines, points = export_to(file, tenant)
    if file is not None:
        if as_json:
            document({"file": str(file), "tenant": tenant, "entries": lines, "checkpoints": points})
        say(f"{styled('✓', 'green')} wrote {lines:,} entries and {points:,} checkpoints to {file}")


@app.command("erase", epilog="Example: paddock ledger erase user:ann --reason 'asked to be forgotten' --yes")
@reporting
def erase(
    principal: Annotated[str, typer.Argument(metavar="PRINCIPAL", help="Of whom nothing shall be known any more.")],
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.")],
    tenant: OfTenant = DEFAULT_TENANT,
    yes: Yes = False,
    as_json: AsJson = False,
) -> None:
    """Erase what the entries say of a person. It cannot be undone; the chain stays whole, and says that it was done."""
    import shlex

    from paddock.cli.consent import confirm
    from paddock.cli.ledger_erase import erase_now

    words = " ".join(shlex.quote(word) for word in (principal, "--reason", reason))
    confirm(f"Erase for ever what the ledger says of {principal}?", yes=yes, retype=f"paddock ledger erase {words}")
    done = erase_now(tenant, principal, reason)
    count, rows, left = done.forgotten.entries, done.forgotten.rows, done.left_in
    if as_json:
        document({"tenant": tenant, "erased": count, "cleared": rows, "left_in": str(left) if left else None})
    beside = f", and {rows:,} {'row' if rows == 1 else 'rows'} beside them" if rows else ""
    words = f"erased what {count:,} {'entry' if count == 1 else 'entries'}{beside} said of {principal}"
    say(f"{styled('✓', 'green')} {words}")
    if left is not None:
        say(f"{styled('!', 'yellow')} {left} still holds it, since another process reads in the database")
        say(f"  {styled('→', 'dim')} stop the daemon once: that file goes when the last process closes the database")
