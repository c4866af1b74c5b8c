"""`paddock user session …`: console sessions."""

from __future__ import annotations

import click

from paddock.cli import options
from paddock.cli.client.api_client import named_path, path_segment
from paddock.cli.client.identity_client import open_identity_client
from paddock.cli.command import PaddockGroup
from paddock.cli.output.report import format_table, print_json, print_message, print_result, report_change
from paddock.core.printable import count_text

app = PaddockGroup("session", help="List and end console sessions.")


@app.command("list", examples=["paddock user session list", "paddock user session list ann --json"])
@click.argument("name", required=False, help="Only those of this person.")
@options.tenant
@options.as_json
def list_(name: str | None, *, tenant: str, as_json: bool) -> None:
    """List the open console sessions."""
    with open_identity_client(tenant) as client:
        sessions = client.get("/sessions" + (f"?person={path_segment(name)}" if name is not None else ""))
    if as_json:
        print_json(sessions)
    elif sessions["sessions"]:
        cells = [
            [row["id"], row["subject"], row["via"], row["opened_at"][:16], row["seen_at"][:16]]
            for row in sessions["sessions"]
        ]
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
    from paddock.principals.people import unknown_person_error
    from paddock.principals.sessions import unknown_session_error

    with open_identity_client(tenant) as client:
        if who.startswith("ses_"):
            path = named_path("/sessions", who, lambda: unknown_session_error(who))
            ended = client.post(f"{path}/end")["ended"]
        elif who:
            ended = client.post("/sessions/end", {"person": who})["ended"]
        else:
            raise unknown_person_error(tenant, who)
    count = count_text(len(ended), "session")
    report_change(as_json, f"ended {count}", tenant=tenant, ended=ended)
