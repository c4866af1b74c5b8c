"""`paddock ledger …`: show, verify, export and erase ledger entries."""

from __future__ import annotations

from pathlib import Path

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.commands.ledger import tail
from paddock.cli.output.report import print_json, print_message, styled
from paddock.core.ids import DEFAULT_TENANT

app = PaddockGroup("ledger", help="Show, verify, export and erase ledger entries.")
app.add_command(tail.tail)

chain_tenant_option = click.option("--tenant", default=DEFAULT_TENANT, metavar="NAME", help="The tenant of the chain.")


@app.command("show", examples=["paddock ledger show ID"])
@click.argument("name", metavar="ID", help="The id of an entry (evt_…), a call or a request.")
@chain_tenant_option
@options.as_json
def show(name: str, *, tenant: str, as_json: bool) -> None:
    """Show one ledger entry, or all entries of a call or request in order."""
    from paddock.cli.client.ledger_client import find_history, read_key_names
    from paddock.ledger.chain.verify import altered_text

    entries, altered = find_history(tenant, name)
    if as_json:
        print_json({"entries": [entry.to_json() for entry in entries], "altered": [entry.id for entry in altered]})
    else:
        names = read_key_names(tenant, entries)
        for entry in entries:
            tail.print_full_entry(entry, names)
    for entry in altered:
        print_message(f"{styled('altered:', 'red')} {altered_text(entry)} (paddock ledger verify)")


@app.command(
    "verify",
    examples=[
        "paddock ledger verify",
        "paddock ledger verify --anchor ./default.checkpoints.jsonl",
        "paddock ledger verify --anchor",
    ],
)
@click.option("--tenant", metavar="NAME", help="Only the chain of this tenant.")
@click.option(
    "--anchor",
    multiple=True,
    is_flag=False,
    flag_value="",
    metavar="[FILE]",
    help="A file of checkpoints that was kept elsewhere; may be repeated. Without a file: the copies that were sent to "
    "the configured anchors (`ledger.anchors`).",
)
@click.option(
    "--public-key",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FILE",
    help="The public key to verify with, instead of the one in this home; may be repeated.",
)
@options.as_json
def verify(*, tenant: str | None, anchor: tuple[str, ...], public_key: tuple[Path, ...], as_json: bool) -> None:
    """Verify the hash chains of the ledger. Exits 0 if sound, 1 if tampered with, 2 if truncated, 3 if unreadable."""
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
    help="The file to create; `-` is stdout. [default: stdout]",
)
@chain_tenant_option
@options.as_json
def export(file: Path | None, *, tenant: str, as_json: bool) -> None:
    """Export a chain as JSON lines, followed by its checkpoints: everything needed to verify it elsewhere."""
    from paddock.cli.commands.ledger.export import write_export

    if file == Path("-"):
        file = None
    lines, checkpoints = write_export(file, tenant)
    if file is not None:
        if as_json:
            print_json({"file": str(file), "tenant": tenant, "entries": lines, "checkpoints": checkpoints})
        print_message(f"{styled('✓', 'green')} wrote {lines:,} entries and {checkpoints:,} checkpoints to {file}")


@app.command("erase", examples=["paddock ledger erase user:ann --reason 'asked to be forgotten' --yes"])
@click.argument("principal", metavar="PRINCIPAL", help="The principal to erase, such as user:ann.")
@click.option("--reason", required=True, help="The reason; it is recorded.")
@chain_tenant_option
@options.yes
@options.as_json
def erase(principal: str, *, reason: str, tenant: str, yes: bool, as_json: bool) -> None:
    """Erase the personal data of a principal from the ledger. It cannot be undone.

    The chain stays valid, and records the erasure.
    """
    import shlex

    from paddock.cli.client.api_client import open_client
    from paddock.cli.output.consent_prompt import confirm

    arguments = " ".join(shlex.quote(word) for word in (principal, "--reason", reason))
    confirm(f"Erase for ever what the ledger says of {principal}?", yes=yes, retype=f"paddock ledger erase {arguments}")
    with open_client(tenant) as client:
        erasure = client.post("/erasures", {"principal": principal, "reason": reason}, timeout_s=None)
    if as_json:
        print_json(erasure)
    count, rows = erasure["erased"], erasure["cleared"]
    rows_text = f", and {rows:,} {'row' if rows == 1 else 'rows'} beside them" if rows else ""
    erased_text = f"erased what {count:,} {'entry' if count == 1 else 'entries'}{rows_text} said of {principal}"
    print_message(f"{styled('✓', 'green')} {erased_text}")
    if erasure["left_in"] is not None:
        print_message(
            f"{styled('!', 'yellow')} {erasure['left_in']} still holds it, since another process reads in the database"
        )
        print_message(
            f"  {styled('→', 'dim')} stop the daemon once: that file goes when the last process closes the database"
        )
