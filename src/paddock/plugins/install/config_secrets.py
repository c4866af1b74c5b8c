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

from paddock.config.variables import SECRET_PREFIX, has_reference, unescape
from paddock.core.errors import Conflict, HostError, NotFound
from paddock.core.secret import MAX_SECRET_NAME_CHARS, config_secret_prefix, sanitize_secret_name
from paddock.plugins.store.store import PluginStore

if TYPE_CHECKING:
    from paddock.core.secret import Secret
    from paddock.manifest.model import Manifest
    from paddock.plugins.install.resolve import ResolvedPackage
    from paddock.secrets.rows import SecretInfo
    from paddock.secrets.wrapping_keys import WrappingKeys
    from paddock.store.audited_transaction import AuditedTransaction
    from paddock.store.database import Transaction
from paddock.config.local_file import PluginEntry
from paddock.config.variables import substitute
from paddock.core.errors import Problem


def config_with_references(store: PluginStore, prepared: ResolvedPackage) -> dict[str, Any]:
    """The values of a plugin as its entry has them: a reference for each key, where this store keeps keys."""
    names = _secret_names(store, prepared)
    return {key: secret_reference(names[key]) if key in names else value for key, value in prepared.values.items()}


def check_sealing_key(store: PluginStore, prepared: ResolvedPackage) -> None:
    """Refuse keys that could not be sealed, before anything is done.

    Raises:
        HostError: `secret.key_missing`, when the key that secrets are sealed under is not here.
        OperatorError: `secret.key`, when it cannot be used.
    """
    if store.keys is not None and _secret_names(store, prepared):
        from paddock.secrets.rows import active_key

        note = store.database.read(active_key)
        if note is not None:
            store.keys.find(note)


def changed_secret_fields(store: PluginStore, prepared: ResolvedPackage) -> list[str]:
    """The fields whose key is not the one that is sealed; so is one whose sealed value is damaged.

    Raises:
        HostError: `secret.key_missing`, when what is sealed cannot be opened here.
        OperatorError: `secret.key`, when what opens it cannot be used.
    """
    from paddock.core.secret import Secret
    from paddock.secrets.requirements import SecretScope
    from paddock.secrets.vault import read_secret

    if (keys := store.keys) is None:
        return []
    changed: list[str] = []
    for field, name in _secret_names(store, prepared).items():
        try:
            found = read_secret(store.database, keys, store.tenant, None, name, (SecretScope.SYSTEM,))
            same = found == Secret(_plain_secret(prepared, field))
        except HostError as error:
            if error.error_code != "secret.unreadable":
                raise
            same = False
        if not same:
            changed.append(field)
    return changed


def prepare_sealing(store: PluginStore, prepared: ResolvedPackage) -> Callable[[Transaction], None]:
    """What seals every key that is not sealed yet, for the unit of work that the plugin is installed in.

    Raises:
        HostError: `secret.key_missing`, when the key in use is not here.
        OperatorError: `secret.key`, when it cannot be used.
    """
    changed = changed_secret_fields(store, prepared)
    if store.keys is None or not changed:
        return lambda _: None
    from paddock.core.secret import Secret
    from paddock.secrets.rows import set_secret
    from paddock.secrets.vault import get_sealing_key

    key = get_sealing_key(store.database, store.keys, lambda tx: _audited_change(store, tx))
    names = _secret_names(store, prepared)

    def seal(tx: Transaction) -> None:
        for field in changed:
            value = Secret(_plain_secret(prepared, field))
            if set_secret(_audited_change(store, tx), names[field], "", value, key, store.random) is None:
                raise Conflict(
                    "the key for secrets was replaced meanwhile",
                    code="plugin.changed_meanwhile",
                    hint="run the command again",
                )

    return seal


def sealed_references(store: PluginStore, tx: Transaction, manifest: Manifest) -> dict[str, str]:
    """References to the keys of a plugin that are sealed, by field, for an entry that was lost."""
    from paddock.secrets.rows import list_secrets_by_prefix

    sealed = {
        one.name
        for one in list_secrets_by_prefix(tx, config_secret_prefix(manifest.name))
        if one.tenant == store.tenant
    }
    names = {field: _secret_name(manifest.name, field) for field in _config_properties(manifest)}
    return {field: secret_reference(name) for field, name in names.items() if name in sealed}


def seal_value(store: PluginStore, keys: WrappingKeys, plugin: str, field: str, value: Secret) -> SecretInfo:
    """Seal what a person gave a field of a plugin. `reference_to` its name is what stands for it.

    Raises:
        HostError: `secret.key_missing`, when the key in use is not here.
        OperatorError: `secret.key`, when it cannot be used.
    """
    from paddock.secrets.vault import store_secret

    return store_secret(
        store.database, keys, store.random, partial(_audited_change, store), _secret_name(plugin, field), "", value
    )


def delete_sealed_value(store: PluginStore, plugin: str, field: str) -> bool:
    """Erase what is sealed for a field of a plugin in this tenant; False where nothing is."""
    from paddock.secrets.rows import remove_secret

    def unit(tx: Transaction) -> bool:
        try:
            remove_secret(_audited_change(store, tx), _secret_name(plugin, field), "")
        except NotFound:
            return False
        return True

    return store.database.write(unit)


def delete_plugin_secrets(store: PluginStore, tx: Transaction, plugin: str) -> None:
    """Erase the keys of a plugin that goes, in every tenant."""
    from paddock.secrets.rows import list_secrets_by_prefix, remove_secret

    for one in list_secrets_by_prefix(tx, config_secret_prefix(plugin)):
        remove_secret(_audited_change(replace(store, tenant=one.tenant), tx), one.name, one.owner)


def _secret_names(store: PluginStore, prepared: ResolvedPackage) -> dict[str, str]:
    """The fields that hold a key written out, and what the secret of each is called."""
    if store.keys is None or not prepared.values:
        return {}
    fields = _config_properties(prepared.manifest)
    return {
        key: _secret_name(prepared.manifest.name, key)
        for key, value in prepared.values.items()
        if isinstance(value, str) and value and not has_reference(value)
        if fields.get(key, {}).get("x-secret") is True
    }


def _config_properties(manifest: Manifest) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = manifest.system_config_schema or {}
    return schema.get("properties", {})


def _secret_name(plugin: str, field: str) -> str:
    name = config_secret_prefix(plugin) + field
    if len(name) <= MAX_SECRET_NAME_CHARS and sanitize_secret_name(name) == name:
        return name
    # Told apart by all of the field's name, and still to be recognised by its beginning.
    mark = f"~{hashlib.sha256(field.encode()).hexdigest()[:16]}"
    return sanitize_secret_name(name)[: MAX_SECRET_NAME_CHARS - len(mark)] + mark


def _plain_secret(prepared: ResolvedPackage, field: str) -> str:
    """The key itself."""
    return unescape(str(prepared.values[field]))


def secret_reference(name: str) -> str:
    """What stands in a file for the secret of this name."""
    return f"${{{SECRET_PREFIX}{name}}}"


def _audited_change(store: PluginStore, tx: Transaction) -> AuditedTransaction:
    from paddock.core.ids import PrincipalId
    from paddock.ledger.write.append import TransactionLedger
    from paddock.store.audited_transaction import AuditedTransaction

    told = TransactionLedger(tx, store.clock, store.random, store.tenant, by=store.by)
    return AuditedTransaction(tx, store.tenant, store.by or PrincipalId("host"), store.now(), told)


def find_unset_references(
    store: PluginStore, entry: PluginEntry, environ: Mapping[str, str]
) -> dict[str, list[Problem]]:
    """By field: what it refers to and is not set, for whoever has these variables. A daemon may have others."""
    from paddock.secrets.rows import list_secrets

    set_here = store.database.read(lambda tx: list_secrets(tx, store.tenant, ""))
    known = {**environ, **{f"{SECRET_PREFIX}{one.name}": "" for one in set_here}}
    found: dict[str, list[Problem]] = {}
    for field, value in entry.raw_values.items():
        problems: list[Problem] = []
        substitute(value, known, f"{entry.path}.{field}", problems)
        if problems:
            found[field] = problems
    return found
