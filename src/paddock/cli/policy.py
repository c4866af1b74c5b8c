"""`paddock policy …`: the rules about what may happen: checking, reading, testing and trying them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_problems, styled, table
from paddock.cli.policy_try import try_
from paddock.core.errors import Invalid, PaddockError, Problem
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.config.directories import Directories
    from paddock.config.settings import Settings
    from paddock.policy.engine import Policy
    from paddock.policy.rules import Rule
    from paddock.policy.trying import Case

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Check, read, test and try the rules.")


@app.command("check", epilog="Examples: paddock policy check   ·   paddock policy check ./policies")
@reporting
def check(
    folder: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="A folder of rules; the one in use when left out.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Check rules, and tell every mistake with its file and line."""
    directories, settings = _settings()
    try:
        policy = _loaded(directories, settings, folder)
    except Invalid as error:
        error.hint = ""  # points to this command
        raise
    own = [rule for rule in policy.rules.rules if rule.origin != "shipped"]
    warnings = _unknown_names(policy, directories, settings) if own else []
    count = len(policy.rules.rules)
    if as_json:
        told = [problem.to_dict() for problem in warnings]
        document({"valid": True, "version": policy.version, "rules": count, "own_rules": len(own), "warnings": told})
        return
    show_problems(warnings, "!", "yellow")
    say(f"{styled('✓', 'green')} {count} rules, {len(own)} of them your own; version {policy.version}")


@app.command("show", epilog="Examples: paddock policy show   ·   paddock policy show guests-may-read")
@reporting
def show(
    rule: Annotated[str | None, typer.Argument(metavar="[ID]", help="One rule; all that hold when left out.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Show the rules that hold, and where each comes from."""
    policy = _loaded(*_settings(), None)
    if rule is not None:
        _show_one(_require_rule(policy, rule), as_json=as_json)
    elif as_json:
        document({"version": policy.version, "rules": [_value(one) for one in policy.rules.rules]})
    else:
        rows = [[one.id, "ask" if one.asks else one.effect, _origin(one), one.text] for one in policy.rules.rules]
        for line in table(["RULE", "EFFECT", "FROM", "TEXT"], rows, spare=["FROM", "EFFECT"]):
            result(line)


@app.command("test", epilog="Examples: paddock policy test   ·   paddock policy test ./policy-cases.yaml")
@reporting
def test(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="A table of cases, YAML or TOML; the shipped one when left out."),
    ] = None,
    *,
    folder: Annotated[
        Path | None, typer.Option("--rules", metavar="DIR", help="Rules to test instead of those in use.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Hold the rules against a table of cases. Exit 1 when one comes out otherwise."""
    from paddock.policy.explain import answer_of
    from paddock.policy.trying import failures

    directories, settings = _settings()
    policy = _loaded(directories, settings, folder)
    cases = _cases(file, policy, directories, settings)
    failed = failures(policy, cases)
    # The shipped table is about made-up things, and comes out the same wherever it is used.
    assumed = [one for one in cases if one.taken_as is not None] if file is not None else []
    if as_json:
        told = [
            {
                "case": one.case.name,
                "why": one.why,
                "decision": answer_of(one.decision),
                "policies": list(one.decision.policies),
            }
            for one in failed
        ]
        taken = [{"case": one.name, "what": str(one.request.target), "taken_as": one.taken_as} for one in assumed]
        document({"cases": len(cases), "failed": told, "assumed": taken, "version": policy.version})
    for what, effect in dict.fromkeys((str(one.request.target), one.taken_as) for one in assumed):
        words = f"{printable(what, 200)} is not installed, and no effects are listed: taken as {effect}"
        say(f"  {styled('!', 'yellow')} {words}")
    for one in failed:
        say(f"  {styled('✗', 'red')} {printable(one.case.name, 200)}: {printable(one.why, 400)}")
    if failed:
        say(f"{len(failed)} of {len(cases)} cases came out otherwise")
        raise typer.Exit(1)
    say(f"{styled('✓', 'green')} {len(cases)} cases came out as they should")


app.command(
    "try",
    epilog="Examples: paddock policy try notes.add --as user:ann --role guest --effect db_write   ·   "
    "paddock policy try Gmail.SendEmail --effect external_send",
)(try_)


def _loaded(directories: Directories, settings: Settings, folder: Path | None) -> Policy:
    from paddock.policy.engine import Policy
    from paddock.policy.loading import load_policy, read_folder
    from paddock.policy.rules import checked_rules, shipped_file
    from paddock.policy.vocabulary import vocabulary

    if folder is None:
        return load_policy(directories, settings.policy)
    files = [shipped_file(), *read_folder(folder, guarded=False)]
    return Policy(checked_rules(files, vocabulary(settings.policy.tags)))


def _settings() -> tuple[Directories, Settings]:
    from paddock.config.directories import find_directories
    from paddock.config.load import load_settings
    from paddock.config.project import working_directory

    directories = find_directories(os.environ, Path.home())
    loaded = load_settings(directories, os.environ, cwd=working_directory())
    show_problems(loaded.warnings, "!", "yellow")
    return directories, loaded.settings


def _unknown_names(policy: Policy, directories: Directories, settings: Settings) -> list[Problem]:
    """What one's own rules name and this home does not know."""
    from paddock.cli.policy_home import home_if_any
    from paddock.host.known_names import known_names, names_before_anything_is_kept
    from paddock.policy.named import unknown_names

    try:
        with home_if_any(directories, settings) as home:
            known = home.database.read(known_names) if home else names_before_anything_is_kept()
    except PaddockError as error:  # the rules are right all the same
        words = f"whom and what the rules name could not be looked up: {error.message}"
        return [Problem(str(directories.data), words, error.hint, error.error_code)]
    return unknown_names(policy.rules, known)


def _cases(file: Path | None, policy: Policy, directories: Directories, settings: Settings) -> list[Case]:
    from paddock.cli.policy_home import home_if_any
    from paddock.policy.case_files import read_case_file
    from paddock.policy.trying import read_cases

    table = read_case_file(file)
    words = policy.rules.vocabulary
    if file is None:
        return read_cases(table, words)
    with home_if_any(directories, settings) as home:
        if home is None:
            return read_cases(table, words)
        from paddock.host.seen_by_rules import installed_callables

        return read_cases(table, words, installed_callables(home).find)


def _require_rule(policy: Policy, name: str) -> Rule:
    from difflib import get_close_matches

    from paddock.core.errors import NotFound

    found = policy.rules.by_id.get(name)
    if found is None:
        close = get_close_matches(name, policy.rules.by_id, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "see: paddock policy show"
        raise NotFound(f"there is no rule {printable(name, 100)!r}", code="policy.no_rule", hint=hint)
    return found


def _show_one(rule: Rule, *, as_json: bool) -> None:
    if as_json:
        document(_value(rule))
        return
    result(f"// {_origin(rule)}, line {rule.line}" + ("; it cannot be replaced" if rule.fixed else ""))
    for line in rule.source.split("\n"):
        result(printable(line, 1000))


def _origin(rule: Rule) -> str:
    return printable(rule.origin if rule.origin == "shipped" else Path(rule.origin).name)


def _value(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.id,
        "text": rule.text,
        "effect": rule.effect,
        "asks": rule.wanted.kind if rule.asks else None,
        "origin": rule.origin,
        "line": rule.line,
        "fixed": rule.fixed,
        "source": rule.source,
    }
