"""`paddock calls …`: looking at calls of the daemon that nobody waits for, answering what they ask, and ending them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_error, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import NotFound
from paddock.core.printable import printable
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.cli.daemon import DaemonClient

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Look at, follow, answer and cancel the calls of a running daemon."
)

Id = Annotated[str, typer.Argument(metavar="ID", help="What `paddock call --detach` printed.")]
_NEEDS_DAEMON = "looking at its calls"


@app.command("list", epilog="Example: paddock calls list --json")
@reporting
def list_(
    *,
    most: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000, help="How many of the last calls.")] = 20,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the last calls, newest first: those under way, and those that ended since the daemon runs."""
    from paddock.cli.daemon import require_daemon

    listed = require_daemon(_NEEDS_DAEMON, tenant).get(f"/calls?limit={most}")
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
def show(call_id: Id, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Show how a call is doing: its status, what it asks, and its result or why it failed."""
    from paddock.cli.answering import show_open
    from paddock.cli.daemon import error_from, part, require_daemon
    from paddock.cli.waiting import how_to_go_on, show_preview
    from paddock.core.events_calls import flag

    call = require_daemon(_NEEDS_DAEMON, tenant).get(f"/calls/{part(call_id)}")
    if as_json:
        document(call)
        return
    until = f" until {_moment(call['ended_at'])}" if call["ended_at"] else ""
    say(f"{_name(call)} {_status(call)}, since {_moment(call['started_at'])}{until}")
    if going := call.get("in_progress"):
        often = "once" if going["asked"] == 1 else f"{going['asked']} times"
        then = f", next at {_moment(going['next'])}" if going["next"] else ""
        say(f"  its operator was asked {often}{then}, and until {_moment(going['until'])} at the latest; it said last:")
        document(going["result"])
    for question in call["questions"]:
        show_open(question)
    if held := call.get("approval"):
        show_preview(held["preview"], held["kind"])
        say(f"  {styled('→', 'dim')} {how_to_go_on(held, tenant)}")
    if flagged := flag(call.get("undisclosed")):
        say(f"{styled('flagged:', 'yellow')} {flagged}")
    if call["status"] == "succeeded":
        document(call["result"])
    elif error := call.get("error"):
        show_error(error_from(error, 500))


@app.command("follow", epilog="Example: paddock calls follow ID")
@reporting
def follow(
    call_id: Id,
    *,
    answers: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="What to answer when it asks, as for `paddock call`; @FILE reads a file."),
    ] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Wait for a call as if it had not been detached: show what it tells, then its result. Ctrl-C lets it go on.

    What it asks is asked at the terminal. Without one, and without --answers, the question stays open and is shown.
    """
    from paddock.cli.answering import Answering, given_answers
    from paddock.cli.call import followed
    from paddock.cli.daemon import part, require_daemon
    from paddock.cli.waiting import Waiting

    answering = Answering(given_answers(answers), looking=True)
    daemon = require_daemon("following a call", tenant)
    try:
        with daemon.events(f"/calls/{part(call_id)}/events") as events:
            made = followed(
                daemon,
                _unanswered(daemon, call_id, events),
                answering,
                Waiting(wait=True, served=True, tenant=tenant, own=False),
            )
    except KeyboardInterrupt:
        say(f"the call goes on; end it with: paddock calls cancel {call_id}{for_tenant(tenant)}")
        raise
    document(made if as_json else made["result"])


@app.command("answer", epilog="""Example: paddock calls answer ID '{"colour": "red"}'""")
@reporting
def answer(
    call_id: Id,
    given: Annotated[
        str,
        typer.Argument(metavar="ANSWER", help="A JSON object; true (I was there) or false (no); @FILE reads a file."),
    ],
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Answer what a call asks: the question that has waited longest. `paddock calls show ID` shows it."""
    from paddock.cli.answering import fitted, given_answer, show_open
    from paddock.cli.daemon import part, require_daemon

    said = given_answer(given)
    daemon = require_daemon("answering a call", tenant)
    address = f"/calls/{part(call_id)}"
    waiting = daemon.get(address)["questions"]
    if not waiting:
        raise NotFound(
            "the call asks nothing",
            code="question.not_found",
            hint=f"see how it is doing: paddock calls show {call_id}{for_tenant(tenant)}",
        )
    first, *rest = waiting
    call = daemon.post(f"{address}/questions/{first['id']}", fitted(first, said))
    if as_json:
        document(call)
        return
    say(f"{styled('✓', 'green')} {'declined' if said is False else 'answered'}; the call goes on")
    for question in rest:
        show_open(question)


@app.command("cancel", epilog="Example: paddock calls cancel ID")
@reporting
def cancel(call_id: Id, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Ask for the end of a call and wait for it. A call that is over stays as it is."""
    from paddock.cli.daemon import part, require_daemon

    daemon = require_daemon("cancelling a call", tenant)
    daemon.post(f"/calls/{part(call_id)}/cancel")
    with daemon.events(f"/calls/{part(call_id)}/events") as events:
        ended = next((told for kind, told in events if kind == "end"), None)
    call = ended or daemon.get(f"/calls/{part(call_id)}")
    if as_json:
        document(call)
        return
    doubtful, told = call["status"] == "in_doubt", cast("dict[str, Any]", call.get("error") or {})
    say(f"{styled('!', 'yellow') if doubtful else styled('✓', 'green')} {_name(call)} {_status(call)}")
    if doubtful and told:
        say(f"  {styled('→', 'dim')} {printable(told['hint'], 600)}")


def _name(call: dict[str, Any]) -> str:
    if call["plugin"] == call["callable"]:  # a plugin that is one callable
        return str(call["plugin"])
    return f"{call['plugin']}.{call['callable']}"


def _status(call: dict[str, Any]) -> str:
    waiting = len(call.get("questions", ()))
    if not waiting:
        return str(call["status"])
    return f"{call['status']} ({'1 question waits' if waiting == 1 else f'{waiting} questions wait'})"


def _unanswered(
    daemon: DaemonClient, call_id: str, events: Iterator[tuple[str, dict[str, Any]]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What was told of a call, without what somebody has answered since."""
    from paddock.cli.daemon import part

    for kind, told in events:
        if kind == "approval":
            held = daemon.get(f"/calls/{part(call_id)}").get("approval")
            if not held or held["approval"] != told["approval"]:
                continue
        if kind == "question" and told["type"] == "question":
            waiting = daemon.get(f"/calls/{part(call_id)}")["questions"]
            if all(one["id"] != told["id"] for one in waiting):
                continue
        yield kind, told


def _moment(at: object) -> str:
    return str(at)[:19].replace("T", " ")
