"""`paddock call …`: look at, follow, answer and cancel the daemon's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.action_text import remedy_lines_of, tenant_option
from paddock.cli.output.report import (
    format_table,
    print_error,
    print_json,
    print_message,
    print_remedy_lines,
    print_result,
    styled,
)
from paddock.core.errors import NotFound

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient, ServerEvents

call_id_argument = click.argument(
    "call_id", metavar="ID", help="The id of the call, as printed by `paddock call NAME --detach`."
)
_DAEMON_PURPOSE = "looking at its calls"


@command("list", examples=["paddock call list --json"])
@click.option("--lines", "-n", "limit", type=click.IntRange(min=1, max=1_000), default=20, help="The number of calls.")
@options.tenant
@options.as_json
def list_(*, limit: int, tenant: str, as_json: bool) -> None:
    """List recent calls, newest first: those in progress, and those that ended since the daemon started."""
    from paddock.cli.client.api_client import require_daemon

    page = require_daemon(_DAEMON_PURPOSE, tenant).get(f"/calls?limit={limit}")
    if as_json:
        print_json(page)
        return
    if not page["calls"]:
        print_message("nothing was called since the daemon runs")
        return
    rows = [
        [call["call_id"], _call_name(call), _status_text(call), _format_time(call["started_at"])]
        for call in page["calls"]
    ]
    for line in format_table(["ID", "CALL", "STATUS", "STARTED"], rows):
        print_result(line)


@command("show", examples=["paddock call show ID --json"])
@call_id_argument
@options.tenant
@options.as_json
def show(call_id: str, *, tenant: str, as_json: bool) -> None:
    """Show a call, running or long over: who made it with which inputs, the decision, the timeline, what its plugin
    logged, its open questions, and its result or error.

    The result goes to stdout, everything else to stderr. Secrets in the inputs are left out.
    """
    from paddock.cli.client.api_client import open_client, path_segment
    from paddock.cli.output.approval_prompt import approve_hint, print_preview
    from paddock.cli.output.call_record_text import record_lines
    from paddock.cli.output.question_prompt import print_open_question
    from paddock.core.error_formats import error_from_problem
    from paddock.core.events.calls import undisclosed_text

    with open_client(tenant) as client:
        call = client.get(f"/calls/{path_segment(call_id)}")
    if as_json:
        print_json(call)
        return
    until = f" until {_format_time(call['ended_at'])}" if call["ended_at"] else ""
    print_message(f"{_call_name(call)} {_status_text(call)}, since {_format_time(call['started_at'])}{until}")
    for line in record_lines(call):
        print_message(line)
    if polling := call.get("in_progress"):
        poll_count = "once" if polling["asked"] == 1 else f"{polling['asked']} times"
        next_poll = f", next at {_format_time(polling['next'])}" if polling["next"] else ""
        print_message(
            f"  its operator was asked {poll_count}{next_poll},"
            f" and until {_format_time(polling['until'])} at the latest; it said last:"
        )
        print_json(polling["result"])
    for question in call["questions"]:
        print_open_question(question)
    if approval := call.get("approval"):
        print_preview(approval["preview"], approval["kind"])
        print_message(f"  {styled('→', 'dim')} {approve_hint(approval, tenant)}")
    if warning := undisclosed_text(call.get("undisclosed")):
        print_message(f"{styled('flagged:', 'yellow')} {warning}")
    if call["status"] == "succeeded":
        if call["result_kept"]:
            print_json(call["result"])
        else:
            print_message("  result: no longer kept")
    elif error := call.get("error"):
        print_error(error_from_problem(error))


@command("follow", examples=["paddock call follow ID"])
@call_id_argument
@click.option(
    "--answers",
    metavar="JSON",
    help="Answers to the questions of the call, as for `paddock call NAME`; @FILE reads a file.",
)
@options.tenant
@options.as_json
def follow(call_id: str, *, answers: str | None, tenant: str, as_json: bool) -> None:
    """Wait for a call, and print its progress and its result. Ctrl-C does not cancel it.

    Questions of the call are asked at the terminal. Without a terminal and without --answers, they are printed and
    stay open.
    """
    from paddock.cli.client.api_client import path_segment, require_daemon
    from paddock.cli.client.follow import follow_call
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt, read_answers_option

    questions = QuestionPrompt(read_answers_option(answers), observer_only=True)
    daemon = require_daemon("following a call", tenant)
    try:
        with daemon.stream_events(f"/calls/{path_segment(call_id)}/events") as events:
            call = follow_call(
                daemon,
                _skip_answered_questions(daemon, call_id, events),
                questions,
                ApprovalPrompt(wait=True, has_daemon=True, tenant=tenant, own_call=False),
            )
    except KeyboardInterrupt:
        print_message(f"the call goes on; end it with: paddock call cancel {call_id}{tenant_option(tenant)}")
        raise
    print_json(call if as_json else call["result"])


@command("answer", examples=["""paddock call answer ID '{"colour": "red"}'"""])
@call_id_argument
@click.argument("given", metavar="ANSWER", help="A JSON object, true (confirm) or false (decline); @FILE reads a file.")
@options.tenant
@options.as_json
def answer(call_id: str, given: str, *, tenant: str, as_json: bool) -> None:
    """Answer the oldest open question of a call. `paddock call show ID` shows it."""
    from paddock.cli.client.api_client import path_segment, require_daemon
    from paddock.cli.output.question_prompt import build_answer, print_open_question, read_answer_argument

    value = read_answer_argument(given)
    daemon = require_daemon("answering a call", tenant)
    address = f"/calls/{path_segment(call_id)}"
    open_questions = daemon.get(address)["questions"]
    if not open_questions:
        raise NotFound(
            "the call asks nothing",
            code="question.not_found",
            hint=f"see how it is doing: paddock call show {call_id}{tenant_option(tenant)}",
        )
    first, *rest = open_questions
    call = daemon.post(f"{address}/questions/{first['id']}", build_answer(first, value))
    if as_json:
        print_json(call)
        return
    print_message(f"{styled('✓', 'green')} {'declined' if value is False else 'answered'}; the call goes on")
    for question in rest:
        print_open_question(question)


@command("cancel", examples=["paddock call cancel ID"])
@call_id_argument
@options.tenant
@options.as_json
def cancel(call_id: str, *, tenant: str, as_json: bool) -> None:
    """Cancel a call and wait for its end. A call that ended already is not changed."""
    from paddock.cli.client.api_client import path_segment, require_daemon

    daemon = require_daemon("cancelling a call", tenant)
    daemon.post(f"/calls/{path_segment(call_id)}/cancel")
    with daemon.stream_events(f"/calls/{path_segment(call_id)}/events") as events:
        ended = next((error for kind, error in events if kind == "end"), None)
    call = ended or daemon.get(f"/calls/{path_segment(call_id)}")
    if as_json:
        print_json(call)
        return
    in_doubt, error = call["status"] == "in_doubt", cast("dict[str, Any]", call.get("error") or {})
    print_message(
        f"{styled('!', 'yellow') if in_doubt else styled('✓', 'green')} {_call_name(call)} {_status_text(call)}"
    )
    if in_doubt and error:
        print_remedy_lines(remedy_lines_of(error))


def _call_name(call: dict[str, Any]) -> str:
    if call["plugin"] == call["callable"]:  # a plugin that is one callable
        return str(call["plugin"])
    return f"{call['plugin']}.{call['callable']}"


def _status_text(call: dict[str, Any]) -> str:
    if call["status"] == "failed" and call.get("error_code", call.get("error", {}).get("code")) == "policy_denied":
        return "denied"
    open_questions = len(call.get("questions", ()))
    if not open_questions:
        return str(call["status"])
    return f"{call['status']} ({'1 question waits' if open_questions == 1 else f'{open_questions} questions wait'})"


def _skip_answered_questions(daemon: ApiClient, call_id: str, events: ServerEvents) -> ServerEvents:
    """Pass a call's events on, without questions and approvals that were answered meanwhile."""
    from paddock.cli.client.api_client import path_segment

    for kind, data in events:
        if kind == "approval":
            approval = daemon.get(f"/calls/{path_segment(call_id)}").get("approval")
            if not approval or approval["approval"] != data["approval"]:
                continue
        if kind == "question" and data["type"] == "question":
            open_questions = daemon.get(f"/calls/{path_segment(call_id)}")["questions"]
            if all(question["id"] != data["id"] for question in open_questions):
                continue
        yield kind, data


def _format_time(timestamp: object) -> str:
    return str(timestamp)[:19].replace("T", " ")
