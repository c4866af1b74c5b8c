"""`paddock call`: one call, made by the running daemon or, without one, by a host in this process."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import InterruptedCommand, print_json, print_message, print_result
from paddock.core.errors import HostError, Invalid, NotFound, PaddockError, Problem, TimedOut
from paddock.plugins.manage.repair_text import tenant_option

if TYPE_CHECKING:
    from paddock.cli.client.daemon_client import DaemonClient
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt


_CANCEL_TIMEOUT_S = 5.0  # for an abandoned call to end


@command(
    "call",
    examples=[
        """paddock call slow-count.count --params '{"to": 3}'""",
        """paddock call slow-count.count -p '{"to": 3}' --detach""",
        """paddock call slow-count.count -p '{"to": 3}' --idempotency-key 4f7c --wait""",
        """paddock call slow-count.count -p '{"to": 3}' --as user:ann""",
        """paddock call slow-count.count -p '{"to": 3}' --as acme/user:bob""",
    ],
)
@click.argument("name", help="As in slow-count.count, or a plugin that is one callable.")
@click.option("--params", "-p", default="{}", metavar="JSON", help="The parameters; @FILE reads a file, - reads stdin.")
@click.option(
    "--wait/--detach",
    default=None,
    help="Wait for the result, also where a person has to say yes first (which takes a daemon); or print"
    " the call's id and go. Without either, a call that needs somebody else's yes is left for them.",
)
@click.option(
    "--timeout", metavar="SECONDS", help="Cancel the call when it takes longer, unless its operator works on."
)
@click.option(
    "--answers",
    metavar="JSON",
    help="What to answer when it asks: an object for every question, or a list with an object, true (I was"
    " there) or false (no) for each; @FILE reads a file. Without it you are asked at the terminal.",
)
@click.option(
    "--as",
    "acting_as",
    metavar="PRINCIPAL",
    help="Call as somebody else, with what they may do: user:ann, key:ID, agent:PATH; acme/user:bob is of"
    " another tenant.",
)
@click.option(
    "--idempotency-key",
    "key",
    metavar="KEY",
    help="What has an effect has it once under one key: the same call again prints the same answer.",
)
@options.tenant
@options.as_json
def call(
    name: str,
    *,
    params: str,
    wait: bool | None,
    timeout: str | None,
    answers: str | None,
    acting_as: str | None,
    key: str | None,
    tenant: str,
    as_json: bool,
) -> None:
    """Call a plugin and print what it answers. What it tells meanwhile goes to stderr; Ctrl-C cancels the call."""
    from paddock.cli.client.daemon_client import require_daemon, running_daemon
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt, read_answers_option

    parsed_params, timeout_s = read_parameters(params, name), _parse_timeout(timeout)
    questions = QuestionPrompt(read_answers_option(answers))
    if acting_as is not None:
        from paddock.principals.principal_name import parse_principal_name

        tenant = parse_principal_name(acting_as, tenant).tenant  # also validates it for use in a header
    daemon = running_daemon(tenant=tenant)
    approvals = ApprovalPrompt(wait=wait is True, has_daemon=daemon is not None, tenant=tenant)
    try:
        if daemon is None:
            if wait is False:
                require_daemon("--detach")
            result = _call_without_daemon(name, parsed_params, timeout_s, questions, approvals, acting_as, tenant, key)
        elif wait is not False:
            result = _call_through_daemon(daemon, name, parsed_params, timeout_s, questions, approvals, acting_as, key)
        else:
            if answers is not None:
                raise click.BadParameter("is for a call that is waited for", param_hint="--answers")
            _call_detached(daemon, name, parsed_params, acting_as, tenant, key, as_json=as_json)
            return
    except NotFound as error:
        if error.error_code == "callable.not_found":
            _require_enabled(name, tenant)
        raise
    if not as_json and (original := result.get("replay_of")):
        print_message(f"answered from {original}; nothing was done")
    print_json(result if as_json else result["result"])


def read_parameters(argument: str, name: str = "") -> dict[str, Any]:
    """Parse parameters from the command line, a file, or stdin, with the limits of the daemon.

    Raises:
        Invalid: they are not a JSON object, or do not fit in one request together with this name.
        NotFound: there is no such file.
    """
    from paddock.cli.client.daemon_client import encode_body
    from paddock.web.routing.json_parser import MAX_JSON_BYTES, parse_json_object

    origin, raw = "--params", argument.encode()
    if argument == "-":
        origin, raw = "stdin", sys.stdin.buffer.read(MAX_JSON_BYTES + 1)
    elif argument.startswith("@"):
        origin = argument[1:]
        try:
            with Path(origin).open("rb") as file:
                raw = file.read(MAX_JSON_BYTES + 1)
        except OSError as error:
            hint = "name a file that is there and that you can read, or write the JSON itself"
            raise NotFound(f"cannot read {origin}: {error.strerror}", code="params.unreadable", hint=hint) from None
    too_large = f"has more than {MAX_JSON_BYTES:,} bytes"
    if len(raw) > MAX_JSON_BYTES:
        raise _invalid_params_error(origin, too_large)
    try:
        value = parse_json_object(raw)
    except Invalid as error:
        raise _invalid_params_error(origin, error.problems[0].message, error.problems[0].code) from None
    if len(encode_body({"name": name, "params": value})) > MAX_JSON_BYTES:
        raise _invalid_params_error(origin, too_large)
    return value


def _invalid_params_error(origin: str, message: str, code: str = "not_json") -> Invalid:
    hint = """write for instance --params '{"to": 3}'"""
    return Invalid("the parameters are not valid", [Problem(origin, message, hint, code)], code="invalid_params")


def _build_call_body(name: str, params: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Build the request body for a call."""
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
    call = daemon.post("/calls?detach=1", _build_call_body(name, params, key), acting_as=acting_as)
    if as_json:
        print_json(call)
        return
    print_result(call["call_id"])
    print_message(f"wait for it: paddock calls follow {call['call_id']}{tenant_option(tenant)}")


def _require_enabled(name: str, tenant: str) -> None:
    """Explain that a callable was not found because its plugin is not enabled.

    Raises:
        NotFound: the plugin is installed and not enabled.
    """
    from paddock.cli.client.one_shot import open_for_read
    from paddock.plugins.store.lookup import find_by_name_or_alias
    from paddock.plugins.store.rows import find_grant

    parts = name.split(".")
    with open_for_read(tenant) as host:
        store = host.plugins
        for length in range(len(parts), 0, -1):  # names may contain dots: find the longest prefix that is a plugin
            prefix = ".".join(parts[:length])
            plugin = store.database.read(lambda tx, prefix=prefix: find_by_name_or_alias(tx, prefix))
            if plugin is not None:
                break
        else:
            return
        plugin_name = plugin.name
        grant = store.database.read(lambda tx: find_grant(tx, store.tenant, plugin_name))
    if grant and grant.enabled:
        return
    raise NotFound(
        f"{plugin_name} is installed and not enabled",
        code="plugin.not_enabled",
        hint=f"enable it: paddock plugin enable {plugin_name}{tenant_option(tenant)}",
        details={"plugin": plugin_name},
    )


def _parse_timeout(option: str | None) -> float | None:
    if option is None:
        return None
    try:
        seconds = float(option)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= 86_400:
        raise click.BadParameter("give a number of seconds, such as 5 or 0.5", param_hint="--timeout")
    return seconds


def _call_through_daemon(
    daemon: DaemonClient,
    name: str,
    params: dict[str, Any],
    timeout_s: float | None,
    questions: QuestionPrompt,
    approvals: ApprovalPrompt,
    acting_as: str | None = None,
    key: str | None = None,
) -> dict[str, Any]:
    from paddock.cli.output.outcome_text import call_timeout_error, daemon_lost_error

    call_id, pending_approvals = "", list[str]()
    try:
        with daemon.stream_call(_build_call_body(name, params, key), timeout_s, acting_as) as (call_id, events):
            return follow_call(daemon, _record_held_events(events, pending_approvals), questions, approvals)
    except TimedOut as error:
        if error.error_code != "call.timeout":
            raise  # it is the plugin that took too long
        call = _cancelled_call(daemon, call_id)
        if call is not None and call["status"] == "succeeded":
            return call
        raise call_timeout_error(timeout_s, call, approvals.tenant) from None
    except KeyboardInterrupt:
        raise InterruptedCommand(
            call_timeout_error(timeout_s, _cancelled_call(daemon, call_id), approvals.tenant)
        ) from None
    except HostError as error:
        if error.error_code != "daemon.lost":
            raise
        raise daemon_lost_error(
            error, call_id, key, approvals.tenant, pending_approvals[-1] if pending_approvals else None
        ) from error


def _record_held_events(
    events: Iterator[tuple[str, dict[str, Any]]], pending_approvals: list[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Pass events on, and keep track of the approval that the call waits for."""
    for kind, data in events:
        if kind == "approval":
            pending_approvals.append(data["approval"])
        elif kind == "event":
            pending_approvals.clear()  # approved
        yield kind, data


def _cancelled_call(daemon: DaemonClient, call_id: str) -> dict[str, Any] | None:
    """Cancel an abandoned call and return its state; None if it is unknown.

    A call that its operator is still working on (`in_progress`) is left alone.
    """
    from paddock.cli.client.daemon_client import path_segment

    address = f"/calls/{path_segment(call_id)}"
    with suppress(PaddockError):
        call = daemon.get(address, timeout_s=_CANCEL_TIMEOUT_S) if call_id else None
        if call is None or call["status"] == "in_progress":
            return call
        daemon.post(f"{address}/cancel", timeout_s=_CANCEL_TIMEOUT_S)
        with suppress(PaddockError), daemon.stream_events(f"{address}/events", timeout_s=_CANCEL_TIMEOUT_S) as events:
            return next((data for kind, data in events if kind == "end"), None)
        return daemon.get(address, timeout_s=_CANCEL_TIMEOUT_S)
    return None


def follow_call(
    daemon: DaemonClient,
    events: Iterator[tuple[str, dict[str, Any]]],
    questions: QuestionPrompt,
    approvals: ApprovalPrompt,
) -> dict[str, Any]:
    """Follow a call of the daemon to its end: show its events, and answer its questions.

    Raises:
        NeedsApproval: it waits for approval, and was left pending.
        PaddockError: it failed, or the daemon went away.
    """
    from paddock.cli.client.daemon_client import error_from_problem
    from paddock.cli.output.status_line import CallEventLine

    with CallEventLine() as event_line:
        for kind, data in events:
            if kind == "event":
                event_line.show(data)
            elif kind == "question":
                if data["type"] == "question":
                    event_line.clear()
                    _answer_question(daemon, data, questions)
            elif kind == "approval":
                event_line.clear()
                _prompt_for_approval(daemon, data, approvals)
            elif data["status"] == "succeeded":
                return data
            else:
                raise error_from_problem(data.get("error"), 500)
    raise HostError("the daemon went away before the call ended", code="daemon.lost")


def _prompt_for_approval(daemon: DaemonClient, request: dict[str, Any], approvals: ApprovalPrompt) -> None:
    from paddock.cli.client.event_loop import run_async

    async def send(approved: bool, body: Mapping[str, Any]) -> None:
        daemon.post(f"/approvals/{request['approval']}/{'approve' if approved else 'deny'}", dict(body))

    run_async(approvals.answer(request, send))


def _answer_question(daemon: DaemonClient, question: dict[str, Any], questions: QuestionPrompt) -> None:
    from paddock.cli.client.event_loop import run_async

    address = f"/calls/{question['call_id']}/questions/{question['id']}"
    run_async(questions.answer(question, lambda answer: daemon.post(address, answer)))


def call_running_daemon(name: str, params: dict[str, Any], timeout_s: float | None) -> dict[str, Any]:
    """Make a call through the running daemon, for another command.

    Raises:
        PaddockError: it failed or timed out, or no daemon runs.
    """
    from paddock.cli.client.daemon_client import running_daemon
    from paddock.cli.output.question_prompt import QuestionPrompt

    daemon = running_daemon()
    if daemon is None:
        raise HostError("no daemon runs", code="daemon.lost", hint="start one: paddock serve")
    from paddock.cli.output.approval_prompt import ApprovalPrompt

    return _call_through_daemon(
        daemon, name, params, timeout_s, QuestionPrompt(), ApprovalPrompt(wait=False, has_daemon=True)
    )


def _call_without_daemon(
    name: str,
    params: dict[str, Any],
    timeout_s: float | None,
    questions: QuestionPrompt,
    approvals: ApprovalPrompt,
    acting_as: str | None,
    tenant: str,
    key: str | None,
) -> dict[str, Any]:
    from paddock.cli.client.event_loop import run_async
    from paddock.cli.client.in_process import call_in_process
    from paddock.cli.output.outcome_text import call_timeout_error

    abandoned: list[dict[str, Any]] = []
    try:
        return run_async(
            call_in_process(name, params, timeout_s, questions, approvals, acting_as, tenant, key, abandoned)
        )
    except TimeoutError:
        if abandoned and abandoned[0]["status"] == "succeeded":
            return abandoned[0]
        raise call_timeout_error(timeout_s, abandoned[0] if abandoned else None, tenant) from None
    except KeyboardInterrupt:
        if not abandoned:
            raise  # nothing had been called yet
        raise InterruptedCommand(call_timeout_error(timeout_s, abandoned[0], tenant)) from None
