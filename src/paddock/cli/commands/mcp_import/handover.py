"""Hands servers over from their clients to Paddock: each is started, and replaced in the settings if it answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.commands.mcp_import.import_terms import ImportTerms
from paddock.cli.output.report import ask_yes_no, is_interactive, print_error, print_message, styled
from paddock.core.errors import Failed, PaddockError
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.cli.client.api_client import ApiClient
    from paddock.cli.commands.mcp_import.found_servers import FoundServer

_MAX_NAMED_TOOLS = 3


def start_server(
    api: ApiClient,
    title: str,
    result: dict[str, Any],
    terms: ImportTerms,
    failures: list[PaddockError],
    *,
    caged: bool,
    quiet: bool,
) -> None:
    """Enable and start an imported server. A client must not lose a server that does not answer here.

    The result gets `taken_over`, with `start` where it was started and did not answer, or answers and cannot save what
    its tools change. Such a server stays disabled, unless it was enabled before.
    """
    from paddock.cli.client.api_client import plugin_path
    from paddock.cli.commands.plugin.confirm_install import enable_after_install
    from paddock.core.error_formats import error_to_json

    name = result["name"]
    trial = result.get("trial")
    if trial is not None and not trial["answers"]:
        result["taken_over"] = False  # its trial has said why
    else:
        was_enabled = api.get(plugin_path(name))["enabled"]
        try:
            result |= enable_after_install(api, name, quiet=quiet)
            result["taken_over"] = True
            failure = (
                _find_lost_changes(api, name, trial, terms.retype(title))
                if caged and terms.tries is not False
                else None
            )
            if failure is not None and _wants_it_anyway(failure, title, terms):
                failure = None
        except PaddockError as error:
            failure = _no_answer_error(name, error)
        if failure is not None:
            if not was_enabled:
                api.post(f"{plugin_path(name)}/disable")
            print_error(failure)
            failures.append(failure)
            answers = failure.error_code == "import.cannot_save"
            result |= {"taken_over": False, "start": {"answers": answers, "error": error_to_json(failure)}}
    if not result["taken_over"]:
        print_message(f"{styled('–', 'yellow')} {printable(title)} stays with your client")
        saves = result.get("start", {}).get("answers", False)
        when, option = ("once it can, or if it saves nothing", " --no-try") if saves else ("when it answers", "")
        print_message(f"  {styled('→', 'dim')} {when}: {terms.retype(title)} --replace{option}")


def _find_lost_changes(api: ApiClient, name: str, trial: Mapping[str, Any] | None, retype: str) -> PaddockError | None:
    """Whether a server that answers would fail or forget as soon as a tool changes something, as an error.

    Its tools say that they change things, and its cage lets it change nothing: no file, no network and no program. Or
    its trial saw it write where no grant lets it.
    """
    from paddock.cli.client.api_client import plugin_path
    from paddock.manifest.effects import CHANGING_CLAIMS

    blocked = next((one for one in (trial or {}).get("obstacles", ()) if one["saves"]), None)
    if blocked is not None:
        return Failed(f"{name} answers, but {blocked['message']}", code="import.cannot_save", hint=blocked["hint"])
    if any(_lets_it_act(one) for one in api.get(plugin_path(name))["capabilities"]):
        return None
    tools = [one["name"] for one in api.get(f"{plugin_path(name)}/tools")["tools"] if one["claim"] in CHANGING_CLAIMS]
    if not tools:
        return None
    named = ", ".join(tools[:_MAX_NAMED_TOOLS]) + (f" and {len(tools) - _MAX_NAMED_TOOLS} more" if tools[3:] else "")
    return Failed(
        f"{name} answers, but may write no file: {printable(named, 300)} would fail, or forget what they were given",
        code="import.cannot_save",
        hint="in the settings, set the variable or argument for its data to config:/FILE, in its own folder; then: "
        f"{retype} --capability write:fs:config:/ --replace",
    )


def _lets_it_act(capability: str) -> bool:
    return capability.startswith(("write:fs:", "exec:")) or (capability.startswith("net:") and capability != "net:[]")


def _wants_it_anyway(failure: PaddockError, title: str, terms: ImportTerms) -> bool:
    if terms.yes or not is_interactive():
        return False
    print_message(f"{styled('!', 'yellow')} {printable(failure.message, 600)}")
    return ask_yes_no(f"Replace {printable(title, 200)} in your client all the same?")


def _no_answer_error(name: str, error: PaddockError) -> PaddockError:
    reason = error.details.get("reason") or error.message
    return Failed(
        f"{name} was imported, and does not answer: {reason}",
        code=error.error_code,
        hint=error.hint,
        action=error.action,
    )


def hand_over(
    imported: Sequence[FoundServer], terms: ImportTerms, failures: list[PaddockError], *, as_json: bool
) -> dict[str, Any]:
    """Replace the imported servers in the settings of each client, or print what to paste. Returns JSON data."""
    from paddock.cli.commands.mcp_import.client_settings import (
        find_mcp_url,
        print_client_snippet,
        update_client_settings,
    )
    from paddock.cli.commands.mcp_import.replacement_log import ReplacementLog
    from paddock.config.directories import find_directories
    from paddock.config.load import load_settings
    from paddock.config.project_file import working_directory
    from paddock.web.daemon_address import read_daemon_url

    clients = {place.path: place.settings for server in imported for place in server.places if place.settings}
    if not clients:
        return {}
    directories = find_directories(os.environ, Path.home())
    http = load_settings(directories, os.environ, cwd=working_directory()).settings.http
    mcp_url = find_mcp_url(http, read_daemon_url(directories))
    results: list[dict[str, Any]] = []
    for path, client in clients.items():
        titles = [server.title for server in imported if any(place.path == path for place in server.places)]
        written: dict[str, Any] = {}
        if terms.replace:
            try:
                log = ReplacementLog(directories.state)
                written = update_client_settings(client, titles, log, terms.retype(), yes=terms.yes)
            except PaddockError as error:
                failures.append(error)
                print_error(error)
        # Each format once: the files of most clients take the same lines.
        repeated = client.form in {clients[Path(one["file"])].form for one in results}
        snippet = print_client_snippet(client, mcp_url, as_json=as_json or bool(written) or repeated)
        results.append({"file": str(path)} | snippet | written)
    if any("written" in result for result in results) and not as_json:
        print_message(f"  {styled('→', 'dim')} restart your client; to go back: paddock import --undo")
    return {"client": results[0]} if terms.file else {"clients": results}
