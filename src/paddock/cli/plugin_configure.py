"""`paddock plugin configure`: what a plugin needs to know on this machine, such as a key for a service."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paddock.cli.output import AsJson, document, reporting, result, say, show_problems, styled, table
from paddock.cli.principals import DEFAULT, OfTenant
from paddock.config.variables import as_typed, has_reference
from paddock.core.errors import Problem
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.config.plugin_fields import PluginField
    from paddock.plugins.plugin_store import PluginStore
    from paddock.secrets.keys import Keys


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

    if key is None:
        if unset:
            raise typer.BadParameter("name the field to forget", param_hint="KEY")
        with reading(tenant) as host:
            _list(host.plugins, name, as_json=as_json)
        return
    with changing(tenant) as host:
        store = host.plugins
        plugin, schema = _declared(store, name)
        field = require_field(schema, plugin, key)
        sealed = False
        if unset:
            was_set, was_sealed = _forget(store, plugin, key)
            words = f"forgot {key} of {plugin}" if was_set else f"{key} was not set"
        else:
            value = value_from_text(schema, field, _typed(field))
            sealed = field.secret and isinstance(value, str) and not has_reference(value)
            was_sealed = _write(store, plugin, key, value, keys_for(host) if sealed else None)
            clear = field.secret and not isinstance(value, str)
            words = f"set {key} of {plugin}" + (", sealed among the secrets" if sealed else "")
            words += f", in the clear in {store.values_file}: only texts are sealed" if clear else ""
        log = store.database.empty_log() if was_sealed else None
    if as_json:
        document({"name": plugin, "key": key, "set": not unset, "sealed": sealed, "file": str(store.values_file)})
    else:
        say(f"{styled('✓', 'green')} {printable(words)}")
    tell_of_log(log)


def _declared(store: PluginStore, name: str) -> tuple[str, Mapping[str, Any]]:
    """The plugin's own name, and the schema of its configuration on a machine."""
    from paddock.plugins.registry import resolve_plugin

    manifest = resolve_plugin(store, name).manifest
    return manifest.name, manifest.system_config_schema or {}


def _write(store: PluginStore, plugin: str, key: str, value: Any, keys: Keys | None) -> bool:
    """Keep the value of a field: sealed with these keys, else in the file itself. Whether one was sealed before."""
    from paddock.config.local import set_system_value
    from paddock.core.secret import Secret
    from paddock.plugins.kept_keys import forget_value, reference_to, seal_value
    from paddock.plugins.registry import require_plugin

    # Asked again under the lock: the plugin may have been removed while somebody was typing.
    with store.changing():
        store.database.read(lambda tx: require_plugin(tx, plugin))
        if keys is None:
            set_system_value(store.values_file, plugin, key, value)
            return forget_value(store, plugin, key)
        kept = seal_value(store, keys, plugin, key, Secret(as_typed(value)))
        set_system_value(store.values_file, plugin, key, reference_to(kept.name))
        return kept.version > 1


def _forget(store: PluginStore, plugin: str, key: str) -> tuple[bool, bool]:
    """Whether there was anything to forget, and whether it was sealed."""
    from paddock.config.local import unset_system_value
    from paddock.plugins.kept_keys import forget_value
    from paddock.plugins.registry import require_plugin

    with store.changing():
        store.database.read(lambda tx: require_plugin(tx, plugin))
        was_set = unset_system_value(store.values_file, plugin, key)
        return was_set, forget_value(store, plugin, key)


def _list(store: PluginStore, name: str, *, as_json: bool) -> None:
    from paddock.config.local import read_entries
    from paddock.config.plugin_fields import fields_of
    from paddock.plugins.unset_references import unset_references

    plugin, schema = _declared(store, name)
    entry = read_entries(store.values_file).get(plugin)
    have = set(entry.written) if entry else set[str]()
    unset = unset_references(store, entry, os.environ) if entry else {}
    fields = fields_of(schema)
    if as_json:
        rows = [
            {
                "key": field.name,
                "set": field.name in have,
                "problems": [problem.to_dict() for problem in unset.get(field.name, ())],
                "required": field.required,
                "secret": field.secret,
                "takes": field.in_words,
                "description": field.description,
            }
            for field in fields
        ]
        document({"name": plugin, "file": str(store.values_file), "fields": rows})
        return
    if not fields:
        say(f"{plugin} needs no configuration on this machine")
        return
    cells = [
        [
            field.name,
            _state(field, have, unset),
            "required" if field.required else "optional",
            f"{field.description} ({field.in_words})" if field.description else field.in_words,
        ]
        for field in fields
    ]
    for line in table(["FIELD", "STATE", "NEEDED", "DESCRIPTION"], cells):
        result(line)
    show_problems([problem for problems in unset.values() for problem in problems], "!", "yellow")


def _state(field: PluginField, have: set[str], unset: Mapping[str, Sequence[Problem]]) -> str:
    if field.name not in have:
        return "not set"
    return "leads nowhere" if field.name in unset else "set"


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
