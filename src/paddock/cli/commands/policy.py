"""`paddock policy …`: show and try the rules in force, and check and test rules in files, which needs no home."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from paddock.cli import options
from paddock.cli.command import PaddockGroup
from paddock.cli.commands.policy_file import app as file_app
from paddock.cli.output.report import (
    format_table,
    print_json,
    print_message,
    print_problems,
    print_remedy_lines,
    print_result,
    styled,
)
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.api.policy import PolicyRuleJson
    from paddock.config.directories import Directories
    from paddock.config.settings import Settings
    from paddock.plugins.store.store import PluginStore
    from paddock.policy.cases import PolicyCase
    from paddock.policy.engine import Policy


app = PaddockGroup("policy", help="Check, show, change, test and try the policy rules.")
app.add_command(file_app)


@contextmanager
def open_existing_store(directories: Directories, settings: Settings) -> Generator[PluginStore | None, None, None]:
    """Open the plugin store of this home; None if it has none. Nothing is created.

    Raises:
        StoreUnavailable: the store cannot be opened.
    """
    from paddock.plugins.store.store import open_plugin_store
    from paddock.store.database import embedded_path

    path = embedded_path(settings.store.url or directories.database_file)
    if path is not None and not path.is_file():
        yield None
        return
    with open_plugin_store(directories, settings) as store:
        yield store


@app.command(
    "try",
    examples=[
        "paddock policy try notes.add --as user:ann --role guest --effect db_write",
        "paddock policy try Gmail.SendEmail --effect external_send",
    ],
)
@click.argument("name", help="A callable, such as notes.add; it need not be installed.")
@click.option(
    "--as", "who", default="", metavar="PRINCIPAL", help="The caller, such as user:ann or role:guest. [default: you]"
)
@click.option("--role", multiple=True, help="An additional role of the caller; may be repeated.")
@click.option("--group", multiple=True, help="An additional group of the caller; may be repeated.")
@click.option("--consent", is_flag=True, help="Assume that the caller consented.")
@click.option("--allowlisted", is_flag=True, help="Assume that the callable is on the agent's allowlist.")
@click.option(
    "--effect", multiple=True, help="An effect of the callable, instead of the declared ones; may be repeated."
)
@click.option("--tag", multiple=True, help="A policy tag of the callable, instead of its own; may be repeated.")
@click.option(
    "--flag",
    multiple=True,
    help="A suspicious-text flag of the callable, instead of the detected ones; may be repeated.",
)
@click.option("--kind", default="", help="The kind of its plugin: plugin, agent, operator, tool or adapter.")
@click.option("--background", is_flag=True, help="Assume a call in the background.")
@options.as_json
def try_(
    name: str,
    *,
    who: str,
    role: tuple[str, ...],
    group: tuple[str, ...],
    consent: bool,
    allowlisted: bool,
    effect: tuple[str, ...],
    tag: tuple[str, ...],
    flag: tuple[str, ...],
    kind: str,
    background: bool,
    as_json: bool,
) -> None:
    """Show the decision of the rules for a hypothetical call, the deciding rule, and what would change it."""
    from paddock.cli.client.api_client import open_client
    from paddock.cli.output.explanation_text import decision_lines
    from paddock.core.ids import DEFAULT_TENANT
    from paddock.principals.principal_name import parse_principal_name

    body: dict[str, Any] = {
        "name": name,
        "principal": who,
        "roles": role,
        "groups": group,
        "effects": effect,
        "tags": tag,
        "flags": flag,
        "kind": kind,
        "consented": consent,
        "allowlisted": allowlisted,
        "background": background,
    }
    tenant = parse_principal_name(who).tenant if who and not who.startswith("role:") else DEFAULT_TENANT
    with open_client(tenant) as client:
        decision = client.post("/policy/try", {field: value for field, value in body.items() if value})
    if as_json:
        print_json(decision)
        return
    if not decision["target"]["installed"]:
        print_message(
            f"{styled('!', 'yellow')} nothing installed is called {printable(name)}; it is taken as you describe it"
        )
    first, *rest = decision_lines(decision)
    print_result(styled(first, {"allow": "green", "deny": "red", "ask": "yellow"}[decision["decision"]]))
    for line in rest:
        print_result(line)


@app.command("check", examples=["paddock policy check", "paddock policy check ./policies"])
@click.argument(
    "folder",
    type=click.Path(path_type=Path),
    required=False,
    metavar="[DIR]",
    help="A folder of rules. [default: the one in use]",
)
@options.as_json
def check(folder: Path | None, *, as_json: bool) -> None:
    """Validate policy rules. Every mistake is reported with its file and line."""
    directories, settings = _load_settings()
    try:
        policy = _load_policy(directories, settings, folder)
    except Invalid as error:
        raise error.with_remedy(hint=error.hint) from error  # its action would point to this command
    own_rules = [rule for rule in policy.rules.rules if rule.origin != "shipped"]
    warnings = _unknown_names(policy, directories, settings) if own_rules else []
    count = len(policy.rules.rules)
    if as_json:
        warning_values = [problem.to_dict() for problem in warnings]
        print_json(
            {
                "valid": True,
                "version": policy.version,
                "rules": count,
                "own_rules": len(own_rules),
                "warnings": warning_values,
            }
        )
        return
    print_problems(warnings, "!", "yellow")
    print_message(f"{styled('✓', 'green')} {count} rules, {len(own_rules)} of them your own; version {policy.version}")


@app.command("show", examples=["paddock policy show", "paddock policy show guests-may-read"])
@click.argument("name", required=False, metavar="[ID]", help="The id of one rule. [default: all]")
@options.as_json
def show(name: str | None, *, as_json: bool) -> None:
    """Show the rules in force and where each comes from."""
    from paddock.cli.client.api_client import open_client

    with open_client() as client:
        policy = client.get("/policy")
    if policy["load_error"] is not None:
        print_message(f"{styled('!', 'yellow')} the rules in the files are not in force: {policy['load_error']}")
        print_remedy_lines(["paddock policy check"])
    rules: list[PolicyRuleJson] = policy["rules"]
    if name is not None:
        _print_rule(_require_rule(rules, name), as_json=as_json)
    elif as_json:
        print_json({"version": policy["version"], "rules": rules})
    else:
        rows = [
            [rule["id"], "ask" if rule["asks"] else rule["effect"], _rule_origin(rule), rule["text"]] for rule in rules
        ]
        for line in format_table(["RULE", "EFFECT", "FROM", "TEXT"], rows, hideable=["FROM", "EFFECT"]):
            print_result(line)


@app.command("test", examples=["paddock policy test", "paddock policy test ./policy-cases.yaml"])
@click.argument(
    "file",
    type=click.Path(path_type=Path),
    required=False,
    metavar="[FILE]",
    help="A table of cases in YAML or TOML. [default: the shipped one, and cases.yaml beside your rules]",
)
@click.option(
    "--rules",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A folder of rules to test. [default: the one in use]",
)
@options.as_json
def test(file: Path | None, *, folder: Path | None, as_json: bool) -> None:
    """Test the rules with a table of cases. Exits 1 if a case fails."""
    from paddock.policy.cases import find_failed_cases
    from paddock.policy.explain import decision_word

    directories, settings = _load_settings()
    policy = _load_policy(directories, settings, folder)
    shipped, own = _load_cases(file, folder, policy, directories, settings)
    cases = [*shipped, *own]
    failed = find_failed_cases(policy, cases)
    # The shipped table is about made-up callables, and has the same result everywhere.
    assumed = [case for case in own if case.assumed_effect is not None]
    if as_json:
        failed_values = [
            {
                "case": item.case.name,
                "why": item.why,
                "decision": decision_word(item.decision),
                "policies": list(item.decision.policies),
            }
            for item in failed
        ]
        assumed_values = [
            {"case": item.name, "what": str(item.request.target), "taken_as": item.assumed_effect} for item in assumed
        ]
        print_json({"cases": len(cases), "failed": failed_values, "assumed": assumed_values, "version": policy.version})
    for target_name, effect in dict.fromkeys((str(item.request.target), item.assumed_effect) for item in assumed):
        message = f"{printable(target_name, 200)} is not installed, and no effects are listed: taken as {effect}"
        print_message(f"  {styled('!', 'yellow')} {message}")
    for item in failed:
        print_message(f"  {styled('✗', 'red')} {printable(item.case.name, 200)}: {printable(item.why, 400)}")
    if failed:
        print_message(f"{len(failed)} of {len(cases)} cases came out otherwise")
        raise click.exceptions.Exit(1)
    print_message(f"{styled('✓', 'green')} {len(cases)} cases came out as they should")


def _load_policy(directories: Directories, settings: Settings, folder: Path | None) -> Policy:
    from paddock.policy.engine import Policy
    from paddock.policy.load import load_policy, read_rule_folder
    from paddock.policy.rules import checked_rules, shipped_rule_file
    from paddock.policy.schema import build_vocabulary

    if folder is None:
        return load_policy(directories, settings.policy)
    files = [shipped_rule_file(), *read_rule_folder(folder, guarded=False)]
    return Policy(checked_rules(files, build_vocabulary(settings.policy.tags)))


def _load_settings() -> tuple[Directories, Settings]:
    from paddock.config.directories import find_directories
    from paddock.config.load import load_settings
    from paddock.config.project_file import working_directory

    directories = find_directories(os.environ, Path.home())
    loaded = load_settings(directories, os.environ, cwd=working_directory())
    print_problems(loaded.warnings, "!", "yellow")
    return directories, loaded.settings


def _unknown_names(policy: Policy, directories: Directories, settings: Settings) -> list[Problem]:
    """Warn about names in custom rules that this home does not know."""
    from paddock.host.policy.known_names import default_known_names, known_names
    from paddock.policy.entity_names import find_unknown_entities

    try:
        with open_existing_store(directories, settings) as store:
            names = store.database.read(known_names) if store else default_known_names()
    except PaddockError as error:  # the rules are valid all the same
        message = f"whom and what the rules name could not be looked up: {error.message}"
        return [replace(error.as_problem(str(directories.data)), message=message)]
    return find_unknown_entities(policy.rules, names)


def _load_cases(
    file: Path | None, folder: Path | None, policy: Policy, directories: Directories, settings: Settings
) -> tuple[list[PolicyCase], list[PolicyCase]]:
    """Return the shipped cases, unless a file is named; and those of the file, or of the one beside the rules."""
    from paddock.policy.cases import CASES_FILE, read_case_file, read_cases
    from paddock.policy.load import custom_rules_folder, has_own_cases

    vocabulary, shipped = policy.rules.vocabulary, list["PolicyCase"]()
    if file is None:
        shipped = read_cases(read_case_file(), vocabulary)
        folder = folder or custom_rules_folder(directories, settings.policy)
        file = folder / CASES_FILE if folder is not None else None
        if file is None or not has_own_cases(file):
            return shipped, []
    table = read_case_file(file)
    with open_existing_store(directories, settings) as store:
        if store is None:
            return shipped, read_cases(table, vocabulary)
        from paddock.host.policy.entities import installed_callables

        return shipped, read_cases(table, vocabulary, installed_callables(store).find)


def _require_rule(rules: list[PolicyRuleJson], name: str) -> PolicyRuleJson:
    from difflib import get_close_matches

    from paddock.core.errors import NotFound

    by_id = {rule["id"]: rule for rule in rules}
    if name not in by_id:
        close = get_close_matches(name, by_id, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see: paddock policy show"
        raise NotFound(f"there is no rule {printable(name, 100)!r}", code="policy.no_rule", hint=hint)
    return by_id[name]


def _print_rule(rule: PolicyRuleJson, *, as_json: bool) -> None:
    if as_json:
        print_json(rule)
        return
    fixed = "; it cannot be replaced" if rule["fixed"] else ""
    print_result(f"// {_rule_origin(rule)}, line {rule['line']}{fixed}")
    for line in rule["source"].split("\n"):
        print_result(printable(line, 1000))


def _rule_origin(rule: PolicyRuleJson) -> str:
    return printable(Path(rule["origin"]).name)
