"""`paddock plugin configure`: a plugin's configuration on this machine, such as an API key."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import format_table, print_json, print_message, print_problems, print_result, styled
from paddock.core.error_formats import problem_from_dict
from paddock.core.printable import printable

# Of a field in the JSON output.
_SHOWN_MEMBERS = ("key", "set", "problems", "required", "secret", "takes", "description")


@command("configure", examples=["paddock plugin configure weather api_key", "paddock plugin configure weather"])
@click.argument("name", help="The plugin's name, or an alias of it.")
@click.argument("key", required=False, help="The field to set. [default: list all fields]")
@click.option("--unset", is_flag=True, help="Remove the value of the field.")
@options.tenant
@options.as_json
def configure(name: str, key: str | None, *, unset: bool, tenant: str, as_json: bool) -> None:
    """Set a configuration value of a plugin. The value is read from a prompt or from stdin, and never shown.

    Secret text is encrypted and stored as a secret. Secret values of other types are stored in local.toml as they are.
    """
    from paddock.cli.client.api_client import open_client, open_client_for_change, path_segment, plugin_path
    from paddock.cli.client.secret_input import warn_about_store_log
    from paddock.cli.output.action_text import command_line
    from paddock.core.action import Action

    path = f"{plugin_path(name)}/configuration"
    if key is None:
        if unset:
            raise click.BadParameter("name the field to forget", param_hint="KEY")
        with open_client(tenant) as client:
            _list_fields(client.get(path), as_json=as_json)
        return
    with open_client_for_change(tenant, asks_passphrase=True) as client:
        (field,) = client.get(f"{path}?field={path_segment(key)}")["fields"]
        body = {"forget": [key]} if unset else {"values": {key: _prompt_field_value(field)}}
        changed = client.put(path, body)
    plugin, file, sealed = changed["name"], changed["file"], key in changed["sealed"]
    if unset:
        message = f"forgot {key} of {plugin}" if changed["forgotten"] else f"{key} was not set"
    else:
        message = f"set {key} of {plugin}" + (", stored as a secret" if sealed else "")
        message += f", in the clear in {file}: only texts are sealed" if changed["in_clear"] else ""
    if as_json:
        print_json({"name": plugin, "key": key, "set": not unset, "sealed": sealed, "file": file})
    else:
        print_message(f"{styled('✓', 'green')} {printable(message)}")
    if key in changed["missing"]:
        command_text = command_line(Action.of("plugin.configure", plugin=plugin, field=key, tenant=tenant))
        print_message(f"{styled('!', 'yellow')} {plugin} needs it, and does not run until it is set: {command_text}")
    elif changed["unused_config"]:
        reason = printable(changed["unused_config"], 400)
        print_message(f"{styled('!', 'yellow')} {plugin} goes on with its earlier configuration: {reason}")
    warn_about_store_log(changed.get("log"))


def _list_fields(configuration: Mapping[str, Any], *, as_json: bool) -> None:
    fields = configuration["fields"]
    if as_json:
        rows = [{name: field[name] for name in _SHOWN_MEMBERS} for field in fields]
        print_json({"name": configuration["name"], "file": configuration["file"], "fields": rows})
        return
    if not fields:
        print_message(f"{configuration['name']} needs no configuration on this machine")
        return
    cells = [
        [
            field["key"],
            _field_state_text(field),
            "required" if field["required"] else "optional",
            f"{field['description']} ({field['takes']})" if field["description"] else field["takes"],
        ]
        for field in fields
    ]
    for line in format_table(["FIELD", "STATE", "NEEDED", "DESCRIPTION"], cells):
        print_result(line)
    print_problems([problem_from_dict(problem) for field in fields for problem in field["problems"]], "!", "yellow")


def _field_state_text(field: Mapping[str, Any]) -> str:
    if not field["set"]:
        return "not set"
    return "leads nowhere" if field["problems"] else "set"


def _prompt_field_value(field: Mapping[str, Any]) -> str:
    """Prompt for the value, without echo if it is secret; without a terminal, read it from stdin."""
    from paddock.cli.client.secret_input import check_secret_value, prompt_hidden
    from paddock.secrets.rows import MAX_SECRET_CHARS

    if not sys.stdin.isatty():
        text = sys.stdin.read(MAX_SECRET_CHARS + 1).removesuffix("\n")
    elif field["secret"]:
        text = prompt_hidden(field["key"]).reveal()
    else:
        sys.stderr.write(f"{printable(field['key'])} ({printable(field['takes'])}): ")
        sys.stderr.flush()
        text = sys.stdin.readline(MAX_SECRET_CHARS + 1).removesuffix("\n")
    return check_secret_value(text, "--unset forgets a value")
