"""`paddock approvals …`: what waits for a person, and the answers. Asks the daemon, or opens a host where none runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, ask, document, interactive, reporting, result, say, styled, table, told
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.errors import NeedsConsent
from paddock.plugins.mending import for_tenant

if TYPE_CHECKING:
    from paddock.core.call import Principal
    from paddock.host.host import Host

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="See what waits for a person, and answer: approve, deny, revoke."
)

Id = Annotated[str, typer.Argument(metavar="ID", help="As `paddock approvals list` shows it.")]
Comment = Annotated[str, typer.Option("--comment", "-m", help="Kept beside the answer.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Answer without being asked once more.")]


@app.command("list", epilog="Examples: paddock approvals list   ·   paddock approvals list --standing --json")
@reporting
def list_(
    *,
    ended: Annotated[bool, typer.Option("--all", help="Those that ended or were revoked too.")] = False,
    standing: Annotated[bool, typer.Option(help="Instead, every yes that lasts.")] = False,
    count: Annotated[int, typer.Option("--lines", "-n", min=1, max=1_000, help="How many of the last ones.")] = 100,
    before: Annotated[str | None, typer.Option(metavar="ID", help="Only those before this one.")] = None,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List what waits for a person, newest first."""
    if standing:
        _list_standing(tenant, revoked=ended, as_json=as_json)
        return
    from paddock.cli.daemon import part
    from paddock.cli.what_became import ERASED, is_over

    asked = f"limit={count}{'&all=1' if ended else ''}{f'&before={part(before)}' if before is not None else ''}"
    listed = _got(
        f"/approvals?{asked}",
        lambda host, by: _listed(host, by, ended=ended, before=before, limit=count),
        tenant,
    )
    if as_json:
        document(listed)
        return
    if not listed["approvals"]:
        say("nothing waits for a person")
        return
    rows = [
        [
            one["id"],
            one["state"],
            one["kind"],
            _name(one["preview"]),
            one["requester"] or ERASED,
            "-" if is_over(one) else one["expires_at"][:19],
        ]
        for one in listed["approvals"]
    ]
    for line in table(["ID", "STATE", "KIND", "CALL", "ASKED BY", "UNTIL"], rows):
        result(line)
    if listed["next"]:
        say(f"there may be more: --before {listed['next']}")


@app.command("show", epilog="Example: paddock approvals show ID")
@reporting
def show(approval_id: Id, *, tenant: OfTenant = DEFAULT, as_json: AsJson = False) -> None:
    """Show what would be done, with its parameters, and who may answer; or what became of it."""
    from paddock.cli.daemon import part
    from paddock.cli.waiting import show_preview
    from paddock.cli.what_became import is_over, was_erased, what_became

    found = _got(
        f"/approvals/{part(approval_id)}", lambda host, by: host.approving.find(by.tenant, approval_id), tenant
    )
    if as_json:
        document(found)
        return
    show_preview(found["preview"], found["kind"], over=is_over(found), erased=was_erased(found))
    for line in what_became(found):
        say(f"  {line}")


@app.command("approve", epilog="Examples: paddock approvals approve ID   ·   paddock approvals approve ID --always -y")
@reporting
def approve(
    approval_id: Id,
    *,
    comment: Comment = "",
    session: Annotated[bool, typer.Option("--session", help="Good for this session's other calls too.")] = False,
    always: Annotated[bool, typer.Option("--always", help="Good for all such calls of theirs, until revoked.")] = False,
    plugin: Annotated[
        bool, typer.Option("--plugin", help="And for everything of the plugin's; with one of those two.")
    ] = False,
    params: Annotated[
        str | None, typer.Option("--params", "-p", metavar="JSON", help="Other parameters, which the yes is then to.")
    ] = None,
    yes: Yes = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Say yes: the call is made. Without a daemon it is made here, and its result printed."""
    from paddock.cli.call import parameters

    if session and always:
        raise typer.BadParameter("give one of --session and --always", param_hint="--session")
    if plugin and not (session or always):
        raise typer.BadParameter("is for a yes that lasts: give --session or --always too", param_hint="--plugin")
    body: dict[str, Any] = {"comment": comment, "scope": "always" if always else "session" if session else "once"}
    body |= {"reach": "plugin"} if plugin else {}
    body |= {"params": parameters(params)} if params is not None else {}
    _answer(approval_id, "approve", body, tenant, yes=yes, as_json=as_json)


@app.command("deny", epilog="Example: paddock approvals deny ID -m 'not to her' -y")
@reporting
def deny(
    approval_id: Id, *, comment: Comment = "", tenant: OfTenant = DEFAULT, yes: Yes = False, as_json: AsJson = False
) -> None:
    """Say no, or take back what you asked for yourself: the call is not made, and whoever waits for it is told."""
    _answer(approval_id, "deny", {"comment": comment}, tenant, yes=yes, as_json=as_json)


@app.command("revoke", epilog="Example: paddock approvals revoke ID")
@reporting
def revoke(
    standing_id: Annotated[str, typer.Argument(metavar="ID", help="As `paddock approvals list --standing` shows it.")],
    *,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """End a yes that lasts."""
    from paddock.cli.daemon import part

    ended = _got(
        f"/approvals/standing/{part(standing_id)}/revoke",
        lambda host, by: host.approving.revoke(standing_id, by),
        tenant,
        body={},
    )
    if as_json:
        document(ended)
    elif ended["revoked_at"]:
        by = f" by {ended['revoked_by']}" if ended["revoked_by"] else ""
        say(f"the standing approval for {_name(ended)} was revoked already, at {ended['revoked_at'][:19]}{by}")
    else:
        say(f"the standing approval for {_name(ended)} is good for nothing any more")


def _answer(approval_id: str, verdict: str, body: dict[str, Any], tenant: str, *, yes: bool, as_json: bool) -> None:
    from paddock.cli.daemon import part, running_daemon
    from paddock.cli.event_loop import run

    daemon = running_daemon(tenant=tenant)
    look = f"/approvals/{part(approval_id)}"
    if not yes:
        _confirm(approval_id, verdict, tenant)
    if daemon is not None:
        answered = daemon.post(f"{look}/{verdict}", body)
        call = None
    else:
        from paddock.cli.one_answer import answer_once

        answered, call = run(answer_once(approval_id, verdict, body, tenant))
    if as_json:
        document(answered if call is None else {**answered, "call": call})
    elif answered["id"] != approval_id:
        say(f"{answered['id']}, with your parameters, replaced {approval_id}")
    if call is not None and call.get("error"):
        from paddock.cli.daemon import error_from

        say(f"approved {answered['id']}, and the call failed")
        raise typer.Exit(told(error_from(call["error"], 500), as_json=False))
    if not as_json:
        say(f"{styled('✓', 'green')} {_answered(answered, verdict, tenant)}")
        if answered["standing"]:
            say(f"  the yes lasts; to end it: paddock approvals revoke {answered['standing']}{for_tenant(tenant)}")
        if call is not None:
            document(call["result"])


def _answered(approval: Mapping[str, Any], verdict: str, tenant: str) -> str:
    """What an answer came to."""
    if approval["state"] == "withdrawn":
        return f"you took {approval['id']} back; the call is not made"
    if verdict == "deny":
        return f"denied {approval['id']}; the call is not made"
    if approval["state"] == "pending" and approval["editors"] and not approval["answers"]:
        return f"you changed the parameters, so another person has to say yes: paddock approvals show {approval['id']}"
    if approval["state"] == "pending":
        missing = approval["quorum"] - sum(one["approved"] for one in approval["answers"])
        return f"you approved {approval['id']}; it takes {missing} more"
    if approval["state"] == "consumed":
        return f"approved {approval['id']}; the call was made: paddock explain {approval['call_id']}"
    return (
        f"approved {approval['id']}; the call goes on: paddock calls follow {approval['call_id']}{for_tenant(tenant)}"
    )


def _confirm(approval_id: str, verdict: str, tenant: str) -> None:
    from paddock.cli.daemon import part
    from paddock.cli.waiting import show_preview

    if not interactive():
        raise NeedsConsent(
            f"{verdict} {approval_id}?",
            hint="there is no terminal to ask on; if you mean it:"
            f" paddock approvals {verdict} {approval_id}{for_tenant(tenant)} --yes",
        )
    found = _got(
        f"/approvals/{part(approval_id)}", lambda host, by: host.approving.find(by.tenant, approval_id), tenant
    )
    show_preview(found["preview"], found["kind"])
    if not ask("Approve it?" if verdict == "approve" else "Deny it?"):
        raise NeedsConsent("you did not say yes, and nothing was answered", code="consent_refused")


def _list_standing(tenant: str, *, revoked: bool, as_json: bool) -> None:
    path = f"/approvals/standing{'?all=1' if revoked else ''}"
    listed = _got(path, lambda host, by: _standing(host, by, revoked=revoked), tenant)
    if as_json:
        document(listed)
        return
    if not listed["standing"]:
        say("no yes lasts longer than its call")
        return
    columns = ["id", "holder", "call", "reach", "scope", "given_by", "given_at"]
    heads = ["ID", "FOR", "CALL", "REACH", "SCOPE", "GIVEN BY", "GIVEN"]
    if revoked:
        columns, heads = [*columns, "revoked_at"], [*heads, "REVOKED"]
    cells = [
        one | {"call": _name(one), "given_at": one["given_at"][:19], "revoked_at": (one["revoked_at"] or "")[:19]}
        for one in listed["standing"]
    ]
    for line in table(heads, [[one[column] for column in columns] for one in cells]):
        result(line)


async def _listed(host: Host, by: Principal, *, ended: bool, before: str | None, limit: int) -> dict[str, Any]:
    from paddock.http.api.approvals import page_of

    return page_of(await host.approving.listed(by.tenant, ended=ended, before=before, limit=limit), limit)


async def _standing(host: Host, by: Principal, *, revoked: bool) -> dict[str, Any]:
    return {"standing": await host.approving.standing(by.tenant, revoked=revoked)}


def _name(one: Mapping[str, Any]) -> str:
    return f"{one['plugin']} {one['callable'] or '(everything)'}"


def _got(path: str, by_ourselves: Callable[[Host, Principal], Awaitable[Any]], tenant: str, body: Any = None) -> Any:
    """What the daemon answers, or a host that is opened for this."""
    from paddock.cli.daemon import running_daemon

    daemon = running_daemon(tenant=tenant)
    if daemon is not None:
        return daemon.get(path) if body is None else daemon.post(path, body)
    from paddock.cli.event_loop import run
    from paddock.cli.one_answer import with_host

    return run(with_host(by_ourselves, tenant))
