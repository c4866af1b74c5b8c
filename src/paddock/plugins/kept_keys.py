"""Keys of plugins: sealed among the secrets, and named in `local.toml` in their place.

The secret of a field is called after the plugin and the field, as in `plugin/weather/API_KEY`. Whatever is called so is
the plugin's, and is erased in the unit of work that removes it. What came with another program's settings is sealed in
the one that installs the plugin; what a person types, before the file names it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from paddock.config.variables import SECRET, as_typed, has_reference
from paddock.core.errors import Conflict, HostError, NotFound
from paddock.core.secret_name import LONGEST, fitting, prefix_of
from paddock.plugins.plugin_store import PluginStore

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.manifest.model import Manifest
    from paddock.plugins.preparing import Prepared
    from paddock.principals.change import Change
    from paddock.secrets.keys import Keys
    from paddock.secrets.rows import Listed
    from paddock.store.database import Transaction


def written(store: PluginStore, prepared: Prepared) -> dict[str, Any]:
    """The values of a plugin as its entry has them: a reference for each key, where this store keeps keys."""
    names = _names(store, prepared)
    return {key: reference_to(names[key]) if key in names else value for key, value in prepared.values.items()}


def require_key(store: PluginStore, prepared: Prepared) -> None:
    """Refuse keys that could not be sealed, before anything is done.

    Raises:
        HostError: `secret.key_missing`, when the key that secrets are sealed under is not here.
        OperatorError: `secret.key`, when it cannot be used.
    """
    if store.keys is not None and _names(store, prepared):
        from paddock.secrets.rows import key_in_use

        note = store.database.read(key_in_use)
        if note is not None:
            store.keys.find(note)


def changed_keys(store: PluginStore, prepared: Prepared) -> list[str]:
    """The fields whose key is not the one that is sealed; so is one whose sealed value is damaged.

    Raises:
        HostError: `secret.key_missing`, when what is sealed cannot be opened here.
        OperatorError: `secret.key`, when what opens it cannot be used.
    """
    from paddock.core.secret import Secret
    from paddock.secrets.declared import Scope
    from paddock.secrets.vault import look_up

    if (keys := store.keys) is None:
        return []
    changed: list[str] = []
    for field, name in _names(store, prepared).items():
        try:
            found = look_up(store.database, keys, store.tenant, None, name, (Scope.SYSTEM,))
            same = found == Secret(_literal(prepared, field))
        except HostError as error:
            if error.error_code != "secret.unreadable":
                raise
            same = False
        if not same:
            changed.append(field)
    return changed


def sealing(store: PluginStore, prepared: Prepared) -> Callable[[Transaction], None]:
    """What seals every key that is not sealed yet, for the unit of work that the plugin is installed in.

    Raises:
        HostError: `secret.key_missing`, when the key in use is not here.
        OperatorError: `secret.key`, when it cannot be used.
    """
    changed = changed_keys(store, prepared)
    if store.keys is None or not changed:
        return lambda _: None
    from paddock.core.secret import Secret
    from paddock.secrets.rows import set_secret
    from paddock.secrets.vault import sealing_key

    key = sealing_key(store.database, store.keys, lambda tx: _deed(store, tx))
    names = _names(store, prepared)

    def seal(tx: Transaction) -> None:
        for field in changed:
            value = Secret(_literal(prepared, field))
            if set_secret(_deed(store, tx), names[field], "", value, key, store.random) is None:
                raise Conflict(
                    "the key for secrets was replaced meanwhile",
                    code="plugin.changed_meanwhile",
                    hint="run the command again",
                )

    return seal


def sealed_values(store: PluginStore, tx: Transaction, manifest: Manifest) -> dict[str, str]:
    """References to the keys of a plugin that are sealed, by field, for an entry that was lost."""
    from paddock.secrets.rows import secrets_below

    sealed = {one.name for one in secrets_below(tx, prefix_of(manifest.name)) if one.tenant == store.tenant}
    names = {field: _name(manifest.name, field) for field in _fields(manifest)}
    return {field: reference_to(name) for field, name in names.items() if name in sealed}


def seal_value(store: PluginStore, keys: Keys, plugin: str, field: str, value: Secret) -> Listed:
    """Seal what a person gave a field of a plugin. `reference_to` its name is what stands for it.

    Raises:
        HostError: `secret.key_missing`, when the key in use is not here.
        OperatorError: `secret.key`, when it cannot be used.
    """
    from paddock.secrets.vault import keep_secret

    return keep_secret(store.database, keys, store.random, partial(_deed, store), _name(plugin, field), "", value)


def forget_value(store: PluginStore, plugin: str, field: str) -> bool:
    """Erase what is sealed for a field of a plugin in this tenant; False where nothing is."""
    from paddock.secrets.rows import remove_secret

    def unit(tx: Transaction) -> bool:
        try:
            remove_secret(_deed(store, tx), _name(plugin, field), "")
        except NotFound:
            return False
        return True

    return store.database.write(unit)


def forget_keys(store: PluginStore, tx: Transaction, plugin: str) -> None:
    """Erase the keys of a plugin that goes, in every tenant."""
    from paddock.secrets.rows import remove_secret, secrets_below

    for one in secrets_below(tx, prefix_of(plugin)):
        remove_secret(_deed(replace(store, tenant=one.tenant), tx), one.name, one.owner)


def _names(store: PluginStore, prepared: Prepared) -> dict[str, str]:
    """The fields that hold a key written out, and what the secret of each is called."""
    if store.keys is None or not prepared.values:
        return {}
    fields = _fields(prepared.manifest)
    return {
        key: _name(prepared.manifest.name, key)
        for key, value in prepared.values.items()
        if isinstance(value, str) and value and not has_reference(value)
        if fields.get(key, {}).get("x-secret") is True
    }


def _fields(manifest: Manifest) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = manifest.system_config_schema or {}
    return schema.get("properties", {})


def _name(plugin: str, field: str) -> str:
    name = prefix_of(plugin) + field
    if len(name) <= LONGEST and fitting(name) == name:
        return name
    # Told apart by all of the field's name, and still to be recognised by its beginning.
    mark = f"~{hashlib.sha256(field.encode()).hexdigest()[:16]}"
    return fitting(name)[: LONGEST - len(mark)] + mark


def _literal(prepared: Prepared, field: str) -> str:
    """The key itself."""
    return as_typed(str(prepared.values[field]))


def reference_to(name: str) -> str:
    """What stands in a file for the secret of this name."""
    return f"${{{SECRET}{name}}}"


def _deed(store: PluginStore, tx: Transaction) -> Change:
    from paddock.core.ids import PrincipalId
    from paddock.ledger.append import LedgerTable
    from paddock.principals.change import Change

    told = LedgerTable(tx, store.clock, store.random, store.tenant, by=store.by)
    return Change(tx, store.tenant, store.by or PrincipalId("host"), store.now(), told)
