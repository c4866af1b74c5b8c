"""`paddock plugin check` of a server that is one file: what an installation would propose, and what prevents one."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from paddock.cli.output.report import print_error, print_json, print_problems, print_result
from paddock.cli.output.yaml_text import escape_yaml
from paddock.core.errors import Invalid, OperatorError, PaddockError, PluginError, Problem
from paddock.core.printable import printable

_MANIFEST_SUFFIXES = frozenset({".json", ".toml", ".yaml", ".yml"})


def is_server_file(source: Path) -> bool:
    """Whether a file is a program, and no manifest or package."""
    from paddock.manifest.server_file.server_file import LANGUAGE_SUFFIXES

    suffix = source.suffix.lower()
    if suffix in LANGUAGE_SUFFIXES:
        return source.name != "manifest.py" and source.is_file()
    return suffix not in _MANIFEST_SUFFIXES and source.is_file() and os.access(source, os.X_OK)


def check_server_file(source: Path, options: Mapping[str, list[str]], *, show: bool, as_json: bool) -> None:
    """Try a server file in a cage with nothing granted, as an installation does, and report what it would propose.

    Args:
        source: The file.
        options: Members of the request of an installation, such as `args`.
        show: Whether to print the manifest that would be written.
        as_json: Whether to print a JSON document.

    Raises:
        PaddockError: it cannot be tried here.
    """
    from paddock.cli.client.api_client import open_client
    from paddock.cli.client.install_job import start_install

    body = {"source": str(source.resolve()), **{name: value for name, value in options.items() if value}}
    try:
        with open_client() as client, start_install(client, body) as install:  # leaving the block cancels it
            fetched = install.wait_for_proposal()
    except (PluginError, OperatorError) as error:
        if not (error.error_code or "").startswith("server."):
            raise
        _report_invalid(source, error, as_json=as_json)
        raise click.exceptions.Exit(6) from None
    plugin = fetched["proposal"] or fetched["outcome"]
    if as_json:
        print_json(_result_json(source, plugin))
    elif fetched["proposal"] is not None:
        _print_proposal(plugin, source.name, show=show)
    if not as_json and not (show and fetched["proposal"] is not None):
        installed = "" if fetched["proposal"] is not None else ", installed already"
        print_result(f"{plugin['name']} {plugin['version']}: sound (server file, {printable(source.name)}{installed})")


def _report_invalid(source: Path, error: PaddockError, *, as_json: bool) -> None:
    problems = error.problems if isinstance(error, Invalid) else [_problem(error)]
    if as_json:
        errors = [problem.to_dict() for problem in problems]
        print_json({"valid": False, "file": str(source), "errors": errors, "warnings": []})
    else:
        print_error(error)


def _problem(error: PaddockError) -> Problem:
    return Problem("", error.message, error.hint, error.error_code or "invalid", action=error.action)


def _result_json(source: Path, plugin: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "valid": True,
        "file": str(source),
        "dialect": "server_file",
        "plugins": [{"name": plugin["name"], "version": plugin["version"]}],
        "errors": [],
        "warnings": plugin.get("warnings", []),
        "screen": plugin.get("screen"),
        "server": plugin.get("server"),
    }


def _print_proposal(proposal: Mapping[str, Any], source_name: str, *, show: bool) -> None:
    from paddock.cli.output.consent_prompt import print_consent_screen
    from paddock.core.error_formats import problem_from_dict

    if proposal["screen"] is not None:
        print_consent_screen(proposal["screen"])
    print_problems([problem_from_dict(one) for one in proposal["warnings"]], "!", "yellow")
    server = proposal["server"]
    if server is not None and not server["answers"]:
        unanswered = Problem(source_name, "has not answered yet: it needs what it asks for above")
        print_problems([unanswered], "!", "yellow")
    if show and server is not None:
        sys.stdout.write(escape_yaml(server["written"]["paddock.yaml"]))
