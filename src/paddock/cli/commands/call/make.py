"""`paddock call`: make one call and print its result."""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.action_text import tenant_option
from paddock.cli.output.report import flush_results, print_json, print_message, print_result
from paddock.core.action import Action
from paddock.core.errors import Invalid, NotFound, PaddockError, Problem

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.gate.dry_run import DryRunJson


@command(
    "call",
    examples=[
        """paddock call slow-count.count --params '{"to": 3}'""",
        """paddock call slow-count.count -p '{"to": 3}' --detach""",
        """paddock call slow-count.count -p '{"to": 3}' --idempotency-key 4f7c --wait""",
        """paddock call slow-count.count -p '{"to": 3}' --dry-run""",
        """paddock call slow-count.count -p '{"to": 3}' --as user:ann""",
        """paddock call slow-count.count -p '{"to": 3}' --as acme/user:bob""",
    ],
)
@click.argument("name", help="A callable, such as slow-count.count, or a plugin with a single callable.")
@click.option("--params", "-p", default="{}", metavar="JSON", help="The parameters; @FILE reads a file, - reads stdin.")
@click.option(
    "--wait/--detach",
    default=None,
    help="Wait for the result, also if the call needs approval (this requires a daemon); or print the "
    "id of the call and exit. By default, a call that needs approval by another person is left "
    "pending.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Say what would happen: the decision and its rules, a required approval, and mistakes in the parameters. "
    "Nothing runs. The exit code is that of a call that would be denied or refused.",
)
@click.option(
    "--timeout",
    metavar="SECONDS",
    help="Cancel the call after this time, unless its operator reports that it is in progress.",
)
@click.option(
    "--answers",
    metavar="JSON",
    help="Answers to the questions of the call: one object for all of them, or a list with an object, "
    "true (confirm) or false (decline) for each; @FILE reads a file. Without it, questions are "
    "asked at the terminal.",
)
@click.option(
    "--as",
    "acting_as",
    metavar="PRINCIPAL",
    help="Call as another principal, with its permissions: user:ann, key:ID, agent:PATH, or "
    "acme/user:bob of another tenant.",
)
@click.option(
    "--idempotency-key",
    "key",
    metavar="KEY",
    help="Repeating a call with the same key returns the first result instead of repeating its effect.",
)
@options.tenant
@options.as_json
def make(
    name: str,
    *,
    params: str,
    wait: bool | None,
    dry_run: bool,
    timeout: str | None,
    answers: str | None,
    acting_as: str | None,
    key: str | None,
    tenant: str,
    as_json: bool,
) -> None:
    """Call a plugin and print its result. Progress is printed on stderr; Ctrl-C cancels the call."""
    from paddock.cli.client.api_client import open_client, require_daemon
    from paddock.cli.client.follow import make_call
    from paddock.cli.output.approval_prompt import ApprovalPrompt
    from paddock.cli.output.question_prompt import QuestionPrompt, read_answers_option

    body, timeout_s = {"name": name, "params": read_parameters(params, name)}, _parse_timeout(timeout)
    if key is not None:
        body["idempotency_key"] = key
    questions = QuestionPrompt(read_answers_option(answers))
    if acting_as is not None:
        from paddock.principals.principal_name import parse_principal_name

        tenant = parse_principal_name(acting_as, tenant).tenant  # also validates it for use in a header
    if dry_run:
        if wait is not None:
            raise click.BadParameter("has nothing to wait for", param_hint="--dry-run")
        with open_client(tenant) as client, _not_enabled_errors(client, name, tenant):
            outcome = client.post("/calls", {**body, "dry_run": True}, acting_as=acting_as)
        _print_dry_run(outcome, as_json=as_json)
        return
    if wait is False:
        client = require_daemon("--detach", tenant)
        if answers is not None:
            raise click.BadParameter("is for a call that is waited for", param_hint="--answers")
        with _not_enabled_errors(client, name, tenant):
            _print_detached(client.post("/calls?detach=1", body, acting_as=acting_as), tenant, as_json=as_json)
        return
    with open_client(tenant) as client, _not_enabled_errors(client, name, tenant):
        approvals = ApprovalPrompt(wait=wait is True, has_daemon=client.has_daemon, tenant=tenant)
        result = make_call(client, body, timeout_s, questions, approvals, acting_as)
        if not as_json:  # with --json, stdout has one document, whatever becomes of the host
            if original := result.get("replay_of"):
                print_message(f"answered from {original}; nothing was done")
            print_json(result["result"])
            flush_results()  # before a host in this process is closed, which waits for its plugins to end
    if as_json:
        print_json(result)


def read_parameters(argument: str, name: str = "") -> dict[str, Any]:
    """Parse parameters from the command line, a file, or stdin, with the limits of the daemon.

    Raises:
        Invalid: they are not a JSON object, or do not fit in one request together with this name.
        NotFound: there is no such file.
    """
    from paddock.cli.client.api_client import encode_body
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


def _print_detached(call: dict[str, Any], tenant: str, *, as_json: bool) -> None:
    if as_json:
        print_json(call)
        return
    print_result(call["call_id"])
    print_message(f"wait for it: paddock call follow {call['call_id']}{tenant_option(tenant)}")


def _print_dry_run(outcome: DryRunJson, *, as_json: bool) -> None:
    from paddock.cli.output.dry_run_text import dry_run_exit_code, dry_run_lines

    if as_json:
        print_json(outcome)
    else:
        for line in dry_run_lines(outcome):
            print_result(line)
    if code := dry_run_exit_code(outcome):
        raise click.exceptions.Exit(code)


@contextmanager
def _not_enabled_errors(client: ApiClient, name: str, tenant: str) -> Generator[None, None, None]:
    """Explain a callable that is not found because its plugin is not enabled."""
    try:
        yield
    except NotFound as error:
        if error.error_code == "callable.not_found":
            _require_enabled(client, name, tenant)
        raise


def _require_enabled(client: ApiClient, name: str, tenant: str) -> None:
    """Check that the plugin of a callable is enabled, if it is installed.

    Raises:
        NotFound: the plugin is installed and not enabled.
    """
    from paddock.cli.client.api_client import plugin_path

    parts, plugin = name.split("."), None
    for length in range(len(parts), 0, -1):  # names may contain dots: find the longest prefix that is a plugin
        with suppress(PaddockError):
            plugin = client.get(plugin_path(".".join(parts[:length])))
            break
    if plugin is None or plugin["enabled"]:
        return
    raise NotFound(
        f"{plugin['name']} is installed and not enabled",
        code="plugin.not_enabled",
        action=Action.of("plugin.enable", plugin=plugin["name"], tenant=tenant),
        details={"plugin": plugin["name"]},
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
