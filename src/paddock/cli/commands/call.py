"""`paddock call`: one call, made by the running daemon or, without one, by a host that is opened for it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.client.store_access import DEFAULT_TENANT_NAME, TenantOption
from paddock.cli.output.report import (
    InterruptedCommand,
    JsonOption,
    handle_errors,
    print_json,
    print_message,
    print_result,
)
from paddock.core.errors import HostError, Invalid, NotFound, PaddockError, Problem, TimedOut
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.cli.client.daemon_client import DaemonClient
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt

app = typer.Typer(add_completion=False)

_CANCEL_TIMEOUT_S = 5.0  # seconds for a call that nobody wants any more

_EXAMPLES = (
    """Examples: paddock call slow-count.count --params '{"to": 3}'"""
    """   ·   paddock call slow-count.count -p '{"to": 3}' --detach"""
    """   ·   paddock call slow-count.count -p '{"to": 3}' --idempotency-key 4f7c --wait"""
    """   ·   paddock call slow-count.count -p '{"to": 3}' --as user:ann"""
    """   ·   paddock call slow-count.count -p '{"to": 3}' --as acme/user:bob"""
)


@app.command("call", epilog=_EXAMPLES)
@handle_errors
def call(
    name: Annotated[str, typer.Argument(help="As in slow-count.count, or a plugin that is one callable.")],
    *,
    params: Annotated[
        str, typer.Option("--params", "-p", metavar="JSON", help="The parameters; @FILE reads a file, - reads stdin.")
    ] = "{}",
    wait: Annotated[
        bool | None,
        typer.Option(
            "--wait/--detach",
            help="Wait for the result, also where a person has to say yes first (which takes a daemon); or print"
            " the call's id and go. Without either, a call that needs somebody else's yes is left for them.",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(metavar="SECONDS", help="Cancel the call when it takes longer, unless its operator works on."),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="What to answer when it asks: an object for every question, or a list with an object, true (I was"
            " there) or false (no) for each; @FILE reads a file. Without it you are asked at the terminal.",
        ),
    ] = None,
    acting_as: Annotated[
        str | None,
        typer.Option(
            "--as",
            metavar="PRINCIPAL",
            help="Call as somebody else, with what they may do: user:ann, key:ID, agent:PATH; acme/user:bob is of"
            " another tenant.",
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            "--idempotency-key",
            metavar="KEY",
            help="What has an effect has it once under one key: the same call again prints the same answer.",
        ),
    ] = None,
    tenant: TenantOption = DEFAULT_TENANT_NAME,
    as_json: JsonOption = False,
) -> None:
    """Call a plugin and print what it answers. What it tells meanwhile goes to stderr; Ctrl-C cancels the call."""
    from paddock.cli.client.daemon_client import require_daemon, running_daemon
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt, read_answers_option

    given, seconds = read_parameters(params, name), _parse_timeout(timeout)
    answering = QuestionPrompt(read_answers_option(answers))
    if acting_as is not None:
        from paddock.principals.principal_name import parse_principal_name

        tenant = parse_principal_name(acting_as, tenant).tenant  # nothing else stands in a header
    daemon = running_daemon(tenant=tenant)
    waiting = ApprovalPrompt(wait=wait is True, served=daemon is not None, tenant=tenant)
    try:
        if daemon is None:
            if wait is False:
                require_daemon("--detach")
            made = _call_without_daemon(name, given, seconds, answering, waiting, acting_as, tenant, key)
        elif wait is not False:
            made = _call_through_daemon(daemon, name, given, seconds, answering, waiting, acting_as, key)
        else:
            if answers is not None:
                raise typer.BadParameter("is for a call that is waited for", param_hint="--answers")
            _call_detached(daemon, name, given, acting_as, tenant, key, as_json=as_json)
            return
    except NotFound as error:
        if error.error_code == "callable.not_found":
            _require_enabled(name, tenant)
        raise
    if not as_json and (former := made.get("replay_of")):
        print_message(f"answered from {former}; nothing was done")
    print_json(made if as_json else made["result"])


def read_parameters(written: str, name: str = "") -> dict[str, Any]:
    """The parameters as they were given on the command line, in a file, or on stdin: what a daemon would take too.

    Raises:
        Invalid: they are not a JSON object, or have no room in one request for what has this name.
        NotFound: there is no such file.
    """
    from paddock.cli.client.daemon_client import encode_body
    from paddock.web.routing.json_parser import MAX_JSON_BYTES, parse_json_object

    where, raw = "--params", written.encode()
    if written == "-":
        where, raw = "stdin", sys.stdin.buffer.read(MAX_JSON_BYTES + 1)
    elif written.startswith("@"):
        where = written[1:]
        try:
            with Path(where).open("rb") as file:
                raw = file.read(MAX_JSON_BYTES + 1)
        except OSError as error:
            hint = "name a file that is there and that you can read, or write the JSON itself"
            raise NotFound(f"cannot read {where}: {error.strerror}", code="params.unreadable", hint=hint) from None
    too_large = f"has more than {MAX_JSON_BYTES:,} bytes"
    if len(raw) > MAX_JSON_BYTES:
        raise _invalid_params_error(where, too_large)
    try:
        value = parse_json_object(raw)
    except Invalid as error:
        raise _invalid_params_error(where, error.problems[0].message, error.problems[0].code) from None
    if len(encode_body({"name": name, "params": value})) > MAX_JSON_BYTES:
        raise _invalid_params_error(where, too_large)
    return value


def _invalid_params_error(where: str, words: str, code: str = "not_json") -> Invalid:
    hint = """write for instance --params '{"to": 3}'"""
    return Invalid("the parameters are not valid", [Problem(where, words, hint, code)], code="invalid_params")


def _build_call_body(name: str, params: dict[str, Any], key: str | None) -> dict[str, Any]:
    """The body that asks a daemon for a call."""
    return {"name": name, "params": params} | ({} if key is None else {"idempotency_key": key})


def _call_detached(
    daemon: DaemonClient,
    name: str,
    params: dict[str, Any],
    acting_as: str | None,
    tenant: str,
    key: str | None,
    *,
    as_json: bool,
) -> None:
    made = daemon.post("/calls?detach=1", _build_call_body(name, params, key), acting_as=acting_as)
    if as_json:
        print_json(made)
        return
    print_result(made["call_id"])
    print_message(f"wait for it: paddock calls follow {made['call_id']}{tenant_option(tenant)}")


def _require_enabled(name: str, tenant: str) -> None:
    """Of something that cannot be called, say so where that is because its plugin must not run.

    Raises:
        NotFound: it is installed and not enabled.
    """
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.store.lookup import find_by_name_or_alias
    from paddock.plugins.store.rows import find_grant

    parts = name.split(".")
    with open_for_read(tenant) as host:
        store = host.plugins
        for length in range(len(parts), 0, -1):  # names have dots in them: the longest that is one
            asked = ".".join(parts[:length])
            plugin = store.database.read(lambda tx, asked=asked: find_by_name_or_alias(tx, asked))
            if plugin is not None:
                break
        else:
            return
        found = plugin.name
        grant = store.database.read(lambda tx: find_grant(tx, store.tenant, found))
    if grant and grant.enabled:
        return
    raise NotFound(
        f"{found} is installed and not enabled",
        code="plugin.not_enabled",
        hint=f"enable it: paddock plugin enable {found}{tenant_option(tenant)}",
        details={"plugin": found},
    )


def _parse_timeout(written: str | None) -> float | None:
    if written is None:
        return None
    try:
        seconds = float(written)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise typer.BadParameter("give a number of seconds, such as 5 or 0.5", param_hint="--timeout")
    return seconds


def _call_through_daemon(
    daemon: DaemonClient,
    name: str,
    params: dict[str, Any],
    seconds: float | None,
    answering: QuestionPrompt,
    waiting: ApprovalPrompt,
    acting_as: str | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    from paddock.cli.output.outcome_text import call_timeout_error, daemon_lost_error

    call_id, held = "", list[str]()
    try:
        with daemon.stream_call(_build_call_body(name, params, key), seconds, acting_as) as (call_id, events):
            return follow_call(daemon, _record_held_events(events, held), answering, waiting)
    except TimedOut as error:
        if error.error_code != "call.timeout":
            raise  # it is the plugin that took too long
        call = _cancelled_call(daemon, call_id)
        if call is not None and call["status"] == "succeeded":
            return call
        raise call_timeout_error(seconds, call, waiting.tenant) from None
    except KeyboardInterrupt:
        raise InterruptedCommand(
            call_timeout_error(seconds, _cancelled_call(daemon, call_id), waiting.tenant)
        ) from None
    except HostError as error:
        if error.error_code != "daemon.lost":
            raise
        raise daemon_lost_error(error, call_id, key, waiting.tenant, held[-1] if held else None) from error


def _record_held_events(
    events: Iterator[tuple[str, dict[str, Any]]], held: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The same events, where those are noted that the call waits for."""
    for kind, told in events:
        if kind == "approval":
            held.append(told["approval"])
        elif kind == "event":
            held.clear()  # it has its yes
        yield kind, told


def _cancelled_call(daemon: DaemonClient, call_id: str) -> dict[str, Any] | None:
    """How a call is doing that nobody waits for any more, once it was asked to end; None where nobody knows.

    One that its operator works on goes on without us.
    """
    from paddock.cli.client.daemon_client import path_segment

    address = f"/calls/{path_segment(call_id)}"
    with suppress(PaddockError):
        call = daemon.get(address, wait=_CANCEL_TIMEOUT_S) if call_id else None
        if call is None or call["status"] == "in_progress":
            return call
        daemon.post(f"{address}/cancel", wait=_CANCEL_TIMEOUT_S)
        with suppress(PaddockError), daemon.stream_events(f"{address}/events", wait=_CANCEL_TIMEOUT_S) as events:
            return next((told for kind, told in events if kind == "end"), None)
        return daemon.get(address, wait=_CANCEL_TIMEOUT_S)
    return None


def follow_call(
    daemon: DaemonClient,
    events: Iterator[tuple[str, dict[str, Any]]],
    answering: QuestionPrompt,
    waiting: ApprovalPrompt,
) -> dict[str, Any]:
    """A call of the daemon's, followed to its end; what it tells is shown, and what it asks is answered.

    Raises:
        NeedsApproval: it waits for a person, and was left for them.
        PaddockError: it failed, or the daemon went away.
    """
    from paddock.cli.client.daemon_client import error_from_problem
    from paddock.cli.output.status_line import CallEventLine

    with CallEventLine() as shown:
        for kind, told in events:
            if kind == "event":
                shown.show(told)
            elif kind == "question":
                if told["type"] == "question":
                    shown.clear()
                    _answer_question(daemon, told, answering)
            elif kind == "approval":
                shown.clear()
                _prompt_for_approval(daemon, told, waiting)
            elif told["status"] == "succeeded":
                return told
            else:
                raise error_from_problem(told.get("error"), 500)
    raise HostError("the daemon went away before the call ended", code="daemon.lost")


def _prompt_for_approval(daemon: DaemonClient, held: dict[str, Any], waiting: ApprovalPrompt) -> None:
    from paddock.cli.client.event_loop import run_async

    async def send(approved: bool, body: Mapping[str, Any]) -> None:
        daemon.post(f"/approvals/{held['approval']}/{'approve' if approved else 'deny'}", dict(body))

    run_async(waiting.answer(held, send))


def _answer_question(daemon: DaemonClient, question: dict[str, Any], answering: QuestionPrompt) -> None:
    from paddock.cli.client.event_loop import run_async

    address = f"/calls/{question['call_id']}/questions/{question['id']}"
    run_async(answering.answer(question, lambda answer: daemon.post(address, answer)))


def call_running_daemon(name: str, params: dict[str, Any], seconds: float | None) -> dict[str, Any]:
    """The same for another command of ours that knows that a daemon runs.

    Raises:
        PaddockError: it failed, took longer than that, or there is no daemon.
    """
    from paddock.cli.client.daemon_client import running_daemon
    from paddock.cli.output.question_prompt import QuestionPrompt

    daemon = running_daemon()
    if daemon is None:
        raise HostError("no daemon runs", code="daemon.lost", hint="start one: paddock serve")
    from paddock.cli.output.approval_prompt import ApprovalPrompt

    return _call_through_daemon(
        daemon, name, params, seconds, QuestionPrompt(), ApprovalPrompt(wait=False, served=True)
    )


def _call_without_daemon(
    name: str,
    params: dict[str, Any],
    seconds: float | None,
    answering: QuestionPrompt,
    waiting: ApprovalPrompt,
    acting_as: str | None,
    tenant: str,
    key: str | None,
) -> dict[str, Any]:
    from paddock.cli.client.event_loop import run_async
    from paddock.cli.client.in_process import call_in_process
    from paddock.cli.output.outcome_text import call_timeout_error

    left: list[dict[str, Any]] = []
    try:
        return run_async(call_in_process(name, params, seconds, answering, waiting, acting_as, tenant, key, left))
    except TimeoutError:
        if left and left[0]["status"] == "succeeded":
            return left[0]
        raise call_timeout_error(seconds, left[0] if left else None, tenant) from None
    except KeyboardInterrupt:
        if not left:
            raise  # nothing was called yet
        raise InterruptedCommand(call_timeout_error(seconds, left[0], tenant)) from None
