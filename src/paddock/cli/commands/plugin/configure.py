"""`paddock plugin configure`: a plugin's configuration on this machine, such as an API key."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import format_table, print_json, print_message, print_problems, print_result, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.config.plugin_fields import PluginField
    from paddock.host.plugins.configuration.config import FieldState
    from paddock.plugins.store.store import PluginStore


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
    from paddock.cli.client.local_store import open_for_change, open_for_read
    from paddock.cli.client.secret_input import open_wrapping_keys, warn_about_store_log
    from paddock.config.plugin_fields import parse_field_value, require_field
    from paddock.host.plugins.configuration.config import system_schema, write_configuration

    if key is None:
        if unset:
            raise click.BadParameter("name the field to forget", param_hint="KEY")
        with open_for_read(tenant) as host:
            _list_fields(host.plugins, name, as_json=as_json)
        return
    with open_for_change(tenant) as host:
        store = host.plugins
        plugin, schema = system_schema(store, name)
        field = require_field(schema, plugin, key)
        if unset:
            change = write_configuration(store, plugin, {}, [key], None)
            message = f"forgot {key} of {plugin}" if change.forgotten else f"{key} was not set"
        else:
            value = parse_field_value(schema, field, _prompt_field_value(field))
            change = write_configuration(store, plugin, {key: value}, [], open_wrapping_keys(host))
            in_clear = field.secret and not isinstance(value, str)
            message = f"set {key} of {plugin}" + (", sealed among the secrets" if change.sealed else "")
            message += f", in the clear in {store.config_file}: only texts are sealed" if in_clear else ""
        sealed = bool(change.sealed)
        log = store.database.truncate_log() if change.replaced else None
    if as_json:
        print_json({"name": plugin, "key": key, "set": not unset, "sealed": sealed, "file": str(store.config_file)})
    else:
        print_message(f"{styled('✓', 'green')} {printable(message)}")
    warn_about_store_log(log)


def _list_fields(store: PluginStore, name: str, *, as_json: bool) -> None:
    from paddock.host.plugins.configuration.config import read_configuration

    configuration = read_configuration(store, name, os.environ)
    if as_json:
        rows = [
            {
                "key": state.field.name,
                "set": state.set,
                "problems": [problem.to_dict() for problem in state.problems],
                "required": state.field.required,
                "secret": state.field.secret,
                "takes": state.field.in_words,
                "description": state.field.description,
            }
            for state in configuration.fields
        ]
        print_json({"name": configuration.plugin, "file": str(store.config_file), "fields": rows})
        return
    if not configuration.fields:
        print_message(f"{configuration.plugin} needs no configuration on this machine")
        return
    cells = [
        [
            state.field.name,
            _field_state_text(state),
            "required" if state.field.required else "optional",
            f"{state.field.description} ({state.field.in_words})" if state.field.description else state.field.in_words,
        ]
        for state in configuration.fields
    ]
    for line in format_table(["FIELD", "STATE", "NEEDED", "DESCRIPTION"], cells):
        print_result(line)
    print_problems([problem for state in configuration.fields for problem in state.problems], "!", "yellow")


def _field_state_text(state: FieldState) -> str:
    if not state.set:
        return "not set"
    return "leads nowhere" if state.problems else "set"


def _prompt_field_value(field: PluginField) -> str:
    """Prompt for the value, without echo if it is secret; without a terminal, read it from stdin."""
    from paddock.cli.client.secret_input import check_secret_value, prompt_hidden
    from paddock.secrets.rows import MAX_SECRET_CHARS

    if not sys.stdin.isatty():
        text = sys.stdin.read(MAX_SECRET_CHARS + 1).removesuffix("\n")
    elif field.secret:
        text = prompt_hidden(field.name).reveal()
    else:
        sys.stderr.write(f"{printable(field.name)} ({printable(field.in_words)}): ")
        sys.stderr.flush()
        text = sys.stdin.readline(MAX_SECRET_CHARS + 1).removesuffix("\n")
    return check_secret_value(text, "--unset forgets a value")
