"""`paddock user session …`: console sessions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.client.store_access import change_store, read_store, report_change
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import format_table, print_json, print_message, print_result

if TYPE_CHECKING:
    from paddock.store.audited_transaction import AuditedTransaction

app = PaddockGroup("session", help="List and end console sessions.")


@app.command("list", examples=["paddock user session list", "paddock user session list ann --json"])
@click.argument("name", required=False, help="Only those of this person.")
@options.tenant
@options.as_json
def list_(name: str | None, *, tenant: str, as_json: bool) -> None:
    """List the open console sessions."""
    from dataclasses import asdict

    from paddock.principals.people import require_person
    from paddock.principals.sessions import list_sessions
    from paddock.principals.tenants import require_tenant

    subject = None
    if name is not None:
        subject = name if name.startswith("local:") else read_store(lambda tx: require_person(tx, tenant, name)).id
    rows = read_store(lambda tx: require_tenant(tx, tenant) and list_sessions(tx, tenant, datetime.now(UTC), subject))
    if as_json:
        print_json({"tenant": tenant, "sessions": [asdict(row) for row in rows]})
    elif rows:
        cells = [[row.id, row.subject, row.via, row.opened_at[:16], row.seen_at[:16]] for row in rows]
        for line in format_table(["SESSION", "WHO", "VIA", "SINCE", "LAST SEEN"], cells):
            print_result(line)
    else:
        print_message("no open sessions")


@app.command("remove", examples=["paddock user session remove ann"])
@click.argument("who", metavar="WHO", help="A person, local:NAME, or one session by its id.")
@options.tenant
@options.as_json
def remove(who: str, *, tenant: str, as_json: bool) -> None:
    """End the console sessions and login links of a person, or one session. It takes effect at once."""
    from paddock.principals.login_links import void_links_for
    from paddock.principals.people import require_person
    from paddock.principals.sessions import ConsoleSession, end_all_sessions, end_session

    def unit(change: AuditedTransaction) -> list[ConsoleSession]:
        if who.startswith("ses_"):
            return [end_session(change, who)]
        subject = who if who.startswith("local:") else require_person(change.tx, change.tenant, who).id
        void_links_for(change, subject)
        return end_all_sessions(change, subject)

    ended = change_store(tenant, unit)
    count = "1 session" if len(ended) == 1 else f"{len(ended)} sessions"
    report_change(as_json, f"ended {count}", tenant=tenant, ended=[session.id for session in ended])
