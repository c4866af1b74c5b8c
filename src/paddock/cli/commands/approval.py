"""`paddock approval …`: approval requests and their answers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import (
    ask_yes_no,
    format_table,
    is_interactive,
    print_json,
    print_message,
    print_result,
    report_error,
    styled,
)
from paddock.core.errors import NeedsConsent

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient

app = PaddockGroup("approval", help="List approval requests, and approve or deny them.")

approval_id_argument = click.argument(
    "approval_id", metavar="ID", help="The id of the request, as shown by `paddock approval list`."
)
comment_option = click.option("--comment", "-m", default="", help="A comment, recorded with the answer.")
confirmed_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


@app.command("list", examples=["paddock approval list", "paddock approval list --all --json"])
@click.option("--all", "ended", is_flag=True, help="Include requests that ended.")
@click.option(
    "--lines", "-n", "count", type=click.IntRange(min=1, max=1_000), default=100, help="The number of requests."
)
@click.option("--before", metavar="ID", help="Only requests before this one.")
@options.tenant
@options.as_json
def list_(*, ended: bool, count: int, before: str | None, tenant: str, as_json: bool) -> None:
    """List pending approval requests, newest first."""
    from paddock.cli.client.api_client import open_client, path_segment
    from paddock.cli.output.outcome_text import ERASED_TEXT, is_closed, requester_text

    query = f"limit={count}{'&all=1' if ended else ''}{f'&before={path_segment(before)}' if before is not None else ''}"
    with open_client(tenant) as client:
        page = client.get(f"/approvals?{query}")
    if as_json:
        print_json(page)
        return
    if not page["approvals"]:
        print_message("nothing waits for a person")
        return
    rows = [
        [
            item["id"],
            item["state"],
            item["kind"],
            _approval_name(item["preview"]),
            requester_text(item["requester"], item["requester_name"]) or ERASED_TEXT,
            "-" if is_closed(item) else item["expires_at"][:19],
        ]
        for item in page["approvals"]
    ]
    for line in format_table(["ID", "STATE", "KIND", "CALL", "ASKED BY", "UNTIL"], rows):
        print_result(line)
    if page["next"]:
        print_message(f"there may be more: --before {page['next']}")


@app.command("show", examples=["paddock approval show ID"])
@approval_id_argument
@options.tenant
@options.as_json
def show(approval_id: str, *, tenant: str, as_json: bool) -> None:
    """Show an approval request: the call, its parameters, who may answer it, and its outcome."""
    from paddock.cli.client.api_client import open_client, path_segment
    from paddock.cli.output.approval_prompt import print_preview
    from paddock.cli.output.outcome_text import describe_approval, is_closed, is_erased, requester_text

    with open_client(tenant) as client:
        request = client.get(f"/approvals/{path_segment(approval_id)}")
    if as_json:
        print_json(request)
        return
    name, closed = requester_text(request["requester"], request["requester_name"]), is_closed(request)
    print_preview(request["preview"], request["kind"], requester=name, closed=closed, erased=is_erased(request))
    for line in describe_approval(request):
        print_message(f"  {line}")


@app.command("approve", examples=["paddock approval approve ID", "paddock approval approve ID --once -y"])
@approval_id_argument
@comment_option
@click.option("--once", is_flag=True, help="Approve this call alone; the default for all but confirmations.")
@click.option("--session", is_flag=True, help="Confirm the tool for the rest of the session.")
@click.option(
    "--always",
    is_flag=True,
    help="Confirm the tool for this caller until the plugin is upgraded; the default for a confirmation.",
)
@click.option("--plugin", is_flag=True, help="With --session or --always: confirm all tools of the plugin.")
@click.option("--params", "-p", metavar="JSON", help="Approve with these parameters instead.")
@confirmed_option
@options.tenant
@options.as_json
def approve(
    approval_id: str,
    *,
    comment: str,
    once: bool,
    session: bool,
    always: bool,
    plugin: bool,
    params: str | None,
    yes: bool,
    tenant: str,
    as_json: bool,
) -> None:
    """Approve a request: the call is made. Without a daemon, it is made by this command, which prints its result."""
    from paddock.cli.commands.call.make import read_parameters

    scopes = [scope for scope, given in (("once", once), ("session", session), ("always", always)) if given]
    if len(scopes) > 1:
        given = " and ".join(f"--{scope}" for scope in scopes)
        raise click.BadParameter(f"give one of {given}", param_hint=f"--{scopes[0]}")
    if plugin and not (session or always):
        raise click.BadParameter("is for a standing approval: give --session or --always too", param_hint="--plugin")
    body: dict[str, Any] = {"comment": comment} | ({"scope": scopes[0]} if scopes else {})
    body |= {"reach": "plugin"} if plugin else {}
    body |= {"params": read_parameters(params)} if params is not None else {}
    options_typed = [*(f"--{scope}" for scope in scopes), *(["--plugin"] if plugin else [])]
    options_typed += ["--params", params] if params is not None else []
    _send_verdict(approval_id, "approve", body, tenant, options_typed, yes=yes, as_json=as_json)


@app.command("deny", examples=["paddock approval deny ID -m 'not to her' -y"])
@approval_id_argument
@comment_option
@options.tenant
@confirmed_option
@options.as_json
def deny(approval_id: str, *, comment: str, tenant: str, yes: bool, as_json: bool) -> None:
    """Deny a request, or withdraw your own: the call is not made, and its caller gets an error."""
    _send_verdict(approval_id, "deny", {"comment": comment}, tenant, yes=yes, as_json=as_json)


standing = PaddockGroup("standing", help="List and remove standing approvals.")
app.add_command(standing)


@standing.command("list", examples=["paddock approval standing list", "paddock approval standing list --all --json"])
@click.option("--all", "revoked", is_flag=True, help="Include removed standing approvals.")
@options.tenant
@options.as_json
def list_standing(*, revoked: bool, tenant: str, as_json: bool) -> None:
    """List standing approvals."""
    from paddock.cli.client.api_client import open_client

    with open_client(tenant) as client:
        response = client.get(f"/approvals/standing{'?all=1' if revoked else ''}")
    if as_json:
        print_json(response)
        return
    if not response["standing"]:
        print_message("no standing approvals")
        return
    columns = ["id", "holder", "call", "reach", "scope", "given_by", "given_at", "state"]
    headings = ["ID", "FOR", "CALL", "REACH", "SCOPE", "GIVEN BY", "GIVEN", "STATE"]
    if revoked:
        columns, headings = [*columns, "revoked_at"], [*headings, "REVOKED"]
    rows = [
        item
        | {
            "call": _approval_name(item),
            "given_at": item["given_at"][:19],
            "state": "revoked" if item["revoked_at"] else "outdated" if item["outdated"] else "holds",
            "revoked_at": (item["revoked_at"] or "")[:19],
        }
        for item in response["standing"]
    ]
    for line in format_table(headings, [[item[column] for column in columns] for item in rows]):
        print_result(line)


@standing.command("remove", examples=["paddock approval standing remove ID"])
@click.argument(
    "standing_id", metavar="ID", help="The id of the standing approval, as shown by `paddock approval standing list`."
)
@options.tenant
@options.as_json
def remove_standing(standing_id: str, *, tenant: str, as_json: bool) -> None:
    """Remove a standing approval."""
    from paddock.cli.client.api_client import open_client, path_segment

    with open_client(tenant) as client:
        removed = client.post(f"/approvals/standing/{path_segment(standing_id)}/revoke", {})
    if as_json:
        print_json(removed)
    elif removed["revoked_at"]:
        by = f" by {removed['revoked_by']}" if removed["revoked_by"] else ""
        print_message(
            f"the standing approval for {_approval_name(removed)} was revoked already,"
            f" at {removed['revoked_at'][:19]}{by}"
        )
    else:
        print_message(f"{styled('✓', 'green')} removed the standing approval for {_approval_name(removed)}")


def _send_verdict(
    approval_id: str,
    verdict: str,
    body: dict[str, Any],
    tenant: str,
    options_typed: Sequence[str] = (),
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Send an answer. `options_typed` are those that decide what it says, as the person typed them."""
    from paddock.cli.client.api_client import open_client, path_segment
    from paddock.cli.output.approval_prompt import print_chosen_scope
    from paddock.core.error_formats import error_from_problem

    if not yes and not is_interactive():
        words = [verdict, approval_id, *options_typed, *(["--comment", body["comment"]] if body["comment"] else [])]
        raise NeedsConsent(
            f"{verdict} {approval_id}?",
            hint="there is no terminal to ask on; if you mean it:"
            f" paddock approval {shlex.join(words)}{tenant_option(tenant)} --yes",
        )
    address, call = f"/approvals/{path_segment(approval_id)}", None
    with open_client(tenant) as client:
        if not yes:
            body |= _confirm_verdict(client.get(address), verdict, body)
        approval = client.post(f"{address}/{verdict}", body)
        if verdict == "approve" and not client.has_daemon:
            approval, call = _finish_approved_calls(client, approval)
    if as_json:
        print_json(approval if call is None else {**approval, "call": call})
    elif approval["id"] != approval_id:
        print_message(f"{approval['id']}, with your parameters, replaced {approval_id}")
    if call is not None and call.get("error"):
        print_message(f"approved {approval['id']}, and the call failed")
        raise click.exceptions.Exit(report_error(error_from_problem(call["error"]), as_json=False))
    if not as_json:
        print_message(f"{styled('✓', 'green')} {_verdict_text(approval, verdict, tenant)}")
        if verdict == "approve":
            print_chosen_scope(approval, tenant)
        if call is not None:
            print_json(call["result"])


def _verdict_text(approval: Mapping[str, Any], verdict: str, tenant: str) -> str:
    """Describe the result of an answer."""
    if approval["state"] == "withdrawn":
        return f"you withdrew {approval['id']}; the call is not made"
    if verdict == "deny":
        return f"denied {approval['id']}; the call is not made"
    if approval["state"] == "pending" and approval["editors"] and not approval["answers"]:
        show = f"paddock approval show {approval['id']}{tenant_option(tenant)}"
        return f"you changed the parameters, so another person has to approve it: {show}"
    if approval["state"] == "pending":
        missing = approval["quorum"] - sum(answer["approved"] for answer in approval["answers"])
        return f"you approved {approval['id']}; it takes {missing} more"
    if approval["state"] == "consumed":
        return f"approved {approval['id']}; the call was made: paddock explain {approval['call_id']}"
    follow = f"paddock call follow {approval['call_id']}{tenant_option(tenant)}"
    return f"approved {approval['id']}; the call goes on: {follow}"


def _confirm_verdict(request: Mapping[str, Any], verdict: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the person once more; return the scope that they choose, if the request leaves a choice."""
    from paddock.cli.output.approval_prompt import ask_scope, print_preview
    from paddock.cli.output.outcome_text import requester_text

    name = requester_text(request["requester"], request["requester_name"])
    print_preview(request["preview"], request["kind"], requester=name)
    chosen: dict[str, Any] = {}
    if verdict == "approve" and request["remember"] != "never" and "scope" not in body:
        scope = ask_scope()
        confirmed, chosen = scope is not None, {"scope": scope}
    else:
        confirmed = ask_yes_no("Approve it?" if verdict == "approve" else "Deny it?")
    if not confirmed:
        raise NeedsConsent("you did not confirm it; nothing was changed", code="consent_refused")
    return chosen


def _finish_approved_calls(client: ApiClient, approval: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Wait for the calls that run in this process; return the request as it is then, and its call if it was made."""
    from paddock.cli.client.follow import follow_approved_calls
    from paddock.cli.output.question_prompt import QuestionPrompt

    address = f"/calls/{approval['call_id']}"
    if client.get(address)["status"] == "pending_approval":  # more people are needed
        return approval, None
    released = [approval["call_id"], *(covered["call_id"] for covered in approval["also_approved"])]
    follow_approved_calls(client, released, QuestionPrompt())
    return client.get(f"/approvals/{approval['id']}"), client.get(address)


def _approval_name(approval: Mapping[str, Any]) -> str:
    return f"{approval['plugin']} {approval['callable'] or '(everything)'}"
