"""`paddock plugin configure`: what a plugin needs to know on this machine, such as a key for a service."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_problems, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.config.plugin_fields import PluginField
    from paddock.host.plugin_values import FieldState
    from paddock.plugins.plugin_store import PluginStore


def register(app: typer.Typer) -> None:
    app.command(
        "configure",
        epilog="Examples: paddock plugin configure weather api_key   ·   paddock plugin configure weather",
    )(configure)


@reporting
def configure(
    name: Annotated[str, typer.Argument(help="The plugin's name or an alias of it.")],
    key: Annotated[str | None, typer.Argument(help="The field to set; all are listed when left out.")] = None,
    *,
    unset: Annotated[bool, typer.Option("--unset", help="Forget the field's value.")] = False,
    tenant: OfTenant = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Set what a plugin needs on this machine. The value is asked for, or read from stdin; it is never shown.

    A text that is secret is sealed among the secrets. Another value of a secret field is kept in local.toml as it is.
    """
    from paddock.cli.opening import changing, reading
    from paddock.cli.secret_keys import keys_for, tell_of_log
    from paddock.config.plugin_fields import require_field, value_from_text
    from paddock.host.plugin_values import change, system_schema

    if key is None:
        if unset:
            raise typer.BadParameter("name the field to forget", param_hint="KEY")
        with reading(tenant) as host:
            _list(host.plugins, name, as_json=as_json)
        return
    with changing(tenant) as host:
        store = host.plugins
        plugin, schema = system_schema(store, name)
        field = require_field(schema, plugin, key)
        if unset:
            written = change(store, plugin, {}, [key], None)
            words = f"forgot {key} of {plugin}" if written.forgotten else f"{key} was not set"
        else:
            value = value_from_text(schema, field, _typed(field))
            written = change(store, plugin, {key: value}, [], keys_for(host))
            clear = field.secret and not isinstance(value, str)
            words = f"set {key} of {plugin}" + (", sealed among the secrets" if written.sealed else "")
            words += f", in the clear in {store.values_file}: only texts are sealed" if clear else ""
        sealed = bool(written.sealed)
        log = store.database.empty_log() if written.replaced else None
    if as_json:
        document({"name": plugin, "key": key, "set": not unset, "sealed": sealed, "file": str(store.values_file)})
    else:
        say(f"{styled('✓', 'green')} {printable(words)}")
    tell_of_log(log)


def _list(store: PluginStore, name: str, *, as_json: bool) -> None:
    from paddock.host.plugin_values import configuration_of

    found = configuration_of(store, name, os.environ)
    if as_json:
        rows = [
            {
                "key": one.field.name,
                "set": one.set,
                "problems": [problem.to_dict() for problem in one.problems],
                "required": one.field.required,
                "secret": one.field.secret,
                "takes": one.field.in_words,
                "description": one.field.description,
            }
            for one in found.fields
        ]
        document({"name": found.plugin, "file": str(store.values_file), "fields": rows})
        return
    if not found.fields:
        say(f"{found.plugin} needs no configuration on this machine")
        return
    cells = [
        [
            one.field.name,
            _state(one),
            "required" if one.field.required else "optional",
            f"{one.field.description} ({one.field.in_words})" if one.field.description else one.field.in_words,
        ]
        for one in found.fields
    ]
    for line in table(["FIELD", "STATE", "NEEDED", "DESCRIPTION"], cells):
        result(line)
    show_problems([problem for one in found.fields for problem in one.problems], "!", "yellow")


def _state(one: FieldState) -> str:
    if not one.set:
        return "not set"
    return "leads nowhere" if one.problems else "set"


def _typed(field: PluginField) -> str:
    """What a person types at the prompt, unseen where it is a secret; without a terminal, what stdin holds."""
    from paddock.cli.secret_keys import checked_value, typed_unseen
    from paddock.secrets.rows import LONGEST_VALUE

    if not sys.stdin.isatty():
        text = sys.stdin.read(LONGEST_VALUE + 1).removesuffix("\n")
    elif field.secret:
        text = typed_unseen(field.name).reveal()
    else:
        sys.stderr.write(f"{printable(field.name)} ({printable(field.in_words)}): ")
        sys.stderr.flush()
        text = sys.stdin.readline(LONGEST_VALUE + 1).removesuffix("\n")
    return checked_value(text, "--unset forgets a value")
