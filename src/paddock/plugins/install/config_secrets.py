"""Secret configuration values of plugins: sealed in the secret store and referenced from `local.toml`.

The secret of a field is named after the plugin and the field, as in `plugin/weather/API_KEY`. All secrets with such a
name belong to the plugin and are erased in the transaction that removes it. Values imported from another program's
settings are sealed in the transaction that installs the plugin; values that a person types, before the file references
them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from paddock.config.local_file import PluginEntry
from paddock.config.variables import SECRET_PREFIX, has_reference, substitute, unescape
from paddock.core.errors import Conflict, HostError, NotFound, Problem
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


def config_with_references(store: PluginStore, package: ResolvedPackage) -> dict[str, Any]:
    """Return the configuration values with a reference in place of each secret, if this store seals secrets."""
    names = _secret_names(store, package)
    return {key: secret_reference(names[key]) if key in names else value for key, value in package.values.items()}


def check_sealing_key(store: PluginStore, package: ResolvedPackage) -> None:
    """Check that secrets could be sealed, before anything is changed.

    Raises:
        HostError: `secret.key_missing`, the key that secrets are sealed under is not here.
        OperatorError: `secret.key`, the key cannot be used.
    """
    if store.keys is not None and _secret_names(store, package):
        from paddock.secrets.rows import active_key

        key_record = store.database.read(active_key)
        if key_record is not None:
            store.keys.find(key_record)


def changed_secret_fields(store: PluginStore, package: ResolvedPackage) -> list[str]:
    """Return the fields whose secret differs from the sealed one; one whose sealed value is damaged counts as changed.

    Raises:
        HostError: `secret.key_missing`, the sealed values cannot be opened here.
        OperatorError: `secret.key`, the key cannot be used.
    """
    from paddock.core.secret import Secret
    from paddock.secrets.requirements import SecretScope
    from paddock.secrets.vault import read_secret

    if (keys := store.keys) is None:
        return []
    changed: list[str] = []
    for field, name in _secret_names(store, package).items():
        try:
            sealed = read_secret(store.database, keys, store.tenant, None, name, (SecretScope.SYSTEM,))
            same = sealed == Secret(_plain_secret(package, field))
        except HostError as error:
            if error.error_code != "secret.unreadable":
                raise
            same = False
        if not same:
            changed.append(field)
    return changed


def prepare_sealing(store: PluginStore, package: ResolvedPackage) -> Callable[[Transaction], None]:
    """Return a function that seals every unsealed secret inside the transaction that installs the plugin.

    Raises:
        HostError: `secret.key_missing`, the key in use is not here.
        OperatorError: `secret.key`, the key cannot be used.
    """
    changed = changed_secret_fields(store, package)
    if store.keys is None or not changed:
        return lambda _: None
    from paddock.core.secret import Secret
    from paddock.secrets.rows import set_secret
    from paddock.secrets.vault import get_sealing_key

    key = get_sealing_key(store.database, store.keys, lambda tx: _audited_change(store, tx))
    names = _secret_names(store, package)

    def seal(tx: Transaction) -> None:
        for field in changed:
            value = Secret(_plain_secret(package, field))
            if set_secret(_audited_change(store, tx), names[field], "", value, key, store.random) is None:
                raise Conflict(
                    "the key for secrets was replaced meanwhile",
                    code="plugin.changed_meanwhile",
                    hint="try again",
                )

    return seal


def sealed_references(store: PluginStore, tx: Transaction, manifest: Manifest) -> dict[str, str]:
    """Return references to a plugin's sealed secrets by field, for an entry that was lost."""
    from paddock.secrets.rows import list_secrets_by_prefix

    sealed = {
        one.name
        for one in list_secrets_by_prefix(tx, config_secret_prefix(manifest.name))
        if one.tenant == store.tenant
    }
    names = {field: _secret_name(manifest.name, field) for field in _config_properties(manifest)}
    return {field: secret_reference(name) for field, name in names.items() if name in sealed}


def seal_value(store: PluginStore, keys: WrappingKeys, plugin: str, field: str, value: Secret) -> SecretInfo:
    """Seal a value that a person set for a field of a plugin. `secret_reference` of its name stands for it in the file.

    Raises:
        HostError: `secret.key_missing`, the key in use is not here.
        OperatorError: `secret.key`, the key cannot be used.
    """
    from paddock.secrets.vault import store_secret

    return store_secret(
        store.database, keys, store.random, partial(_audited_change, store), _secret_name(plugin, field), "", value
    )


def delete_sealed_value(store: PluginStore, plugin: str, field: str) -> bool:
    """Erase the sealed value of a plugin's field in this tenant; returns False if there is none."""
    from paddock.secrets.rows import remove_secret

    def unit(tx: Transaction) -> bool:
        try:
            remove_secret(_audited_change(store, tx), _secret_name(plugin, field), "")
        except NotFound:
            return False
        return True

    return store.database.write(unit)


def delete_plugin_secrets(store: PluginStore, tx: Transaction, plugin: str) -> None:
    """Erase the secrets of a plugin that is being removed, in every tenant."""
    from paddock.secrets.rows import list_secrets_by_prefix, remove_secret

    for secret in list_secrets_by_prefix(tx, config_secret_prefix(plugin)):
        remove_secret(_audited_change(replace(store, tenant=secret.tenant), tx), secret.name, secret.owner)


def _secret_names(store: PluginStore, package: ResolvedPackage) -> dict[str, str]:
    """Return the fields that hold a plain secret, with the name of each one's secret."""
    if store.keys is None or not package.values:
        return {}
    fields = _config_properties(package.manifest)
    return {
        key: _secret_name(package.manifest.name, key)
        for key, value in package.values.items()
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
    # A hash of the whole field name keeps it unique; the truncated name keeps it recognisable.
    suffix = f"~{hashlib.sha256(field.encode()).hexdigest()[:16]}"
    return sanitize_secret_name(name)[: MAX_SECRET_NAME_CHARS - len(suffix)] + suffix


def _plain_secret(package: ResolvedPackage, field: str) -> str:
    """Return the secret in plain text."""
    return unescape(str(package.values[field]))


def secret_reference(name: str) -> str:
    """Return the reference that stands for the secret of this name in a file."""
    return f"${{{SECRET_PREFIX}{name}}}"


def _audited_change(store: PluginStore, tx: Transaction) -> AuditedTransaction:
    from paddock.core.ids import PrincipalId
    from paddock.ledger.write.append import TransactionLedger
    from paddock.store.audited_transaction import AuditedTransaction

    ledger = TransactionLedger(tx, store.clock, store.random, store.tenant, by=store.by)
    return AuditedTransaction(tx, store.tenant, store.by or PrincipalId("host"), store.now(), ledger)


def find_unset_references(
    store: PluginStore, entry: PluginEntry, environ: Mapping[str, str]
) -> dict[str, list[Problem]]:
    """Return, by field, the references that are not set in these environment variables and the secrets. A daemon may
    have other variables."""
    from paddock.secrets.rows import list_secrets

    secrets = store.database.read(lambda tx: list_secrets(tx, store.tenant, ""))
    variables = {**environ, **{f"{SECRET_PREFIX}{one.name}": "" for one in secrets}}
    problems_by_field: dict[str, list[Problem]] = {}
    for field, value in entry.raw_values.items():
        problems: list[Problem] = []
        substitute(value, variables, f"{entry.path}.{field}", problems)
        if problems:
            problems_by_field[field] = problems
    return problems_by_field
