"""`paddock calls …`: looking at calls of the daemon that nobody waits for, and ending them."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_error, styled, table

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at, follow and cancel the calls of a running daemon."
)

Id = Annotated[str, typer.Argument(metavar="ID", help="What `paddock call --detach` printed.")]
_NEEDS_DAEMON = "looking at its calls"


@app.command("list", epilog="Example: paddock calls list --json")
@reporting
def list_(
    *,
    most: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000, help="How many of the last calls.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List the last calls, newest first: those under way, and those that ended since the daemon runs."""
    from paddock.cli.daemon import require_daemon

    listed = require_daemon(_NEEDS_DAEMON).get(f"/calls?limit={most}")
    if as_json:
        document(listed)
        return
    if not listed["calls"]:
        say("nothing was called since the daemon runs")
        return
    rows = [[one["call_id"], _name(one), _status(one), _moment(one["started_at"])] for one in listed["calls"]]
    for line in table(["ID", "CALL", "STATUS", "STARTED"], rows):
        result(line)


@app.command("show", epilog="Example: paddock calls show ID --json")
@reporting
def show(call_id: Id, *, as_json: AsJson = False) -> None:
    """Show how a call is doing: its status, and its result or why it failed."""
    from paddock.cli.daemon import error_from, part, require_daemon

    call = require_daemon(_NEEDS_DAEMON).get(f"/calls/{part(call_id)}")
    if as_json:
        document(call)
        return
    until = f" until {_moment(call['ended_at'])}" if call["ended_at"] else ""
    say(f"{_name(call)} {_status(call)}, since {_moment(call['started_at'])}{until}")
    if call["status"] == "succeeded":
        document(call["result"])
    elif error := call.get("error"):
        show_error(error_from(error, 500))


@app.command("follow", epilog="Example: paddock calls follow ID")
@reporting
def follow(call_id: Id, *, as_json: AsJson = False) -> None:
    """Wait for a call as if it had not been detached: show what it tells, then its result. Ctrl-C lets it go on."""
    from paddock.cli.answering import Answering
    from paddock.cli.call import followed
    from paddock.cli.daemon import part, require_daemon

    daemon = require_daemon("following a call")
    try:
        with daemon.events(f"/calls/{part(call_id)}/events") as events:
            made = followed(daemon, events, Answering())
    except KeyboardInterrupt:
        say(f"the call goes on; end it with: paddock calls cancel {call_id}")
        raise
    document(made if as_json else made["result"])


@app.command("cancel", epilog="Example: paddock calls cancel ID")
@reporting
def cancel(call_id: Id, *, as_json: AsJson = False) -> None:
    """Ask for the end of a call and wait for it. A call that is over stays as it is."""
    from paddock.cli.daemon import part, require_daemon

    daemon = require_daemon("cancelling a call")
    daemon.post(f"/calls/{part(call_id)}/cancel")
    with daemon.events(f"/calls/{part(call_id)}/events") as events:
        ended = next((told for kind, told in events if kind == "end"), None)
    call = ended or daemon.get(f"/calls/{part(call_id)}")
    if as_json:
        document(call)
    else:
        say(f"{styled('✓', 'green')} {_name(call)} {_status(call)}")


def _name(call: dict[str, Any]) -> str:
    return f"{call['plugin']}.{call['callable']}"


def _status(call: dict[str, Any]) -> str:
    waiting = len(call.get("questions", ()))
    return f"{call['status']} ({waiting} questions wait)" if waiting else str(call["status"])


def _moment(at: object) -> str:
    return str(at)[:19].replace("T", " ")
