"""The names that rules of this home can refer to: people, groups, roles, keys, plugins, callables."""

from __future__ import annotations

import pwd
from collections.abc import Iterator

from paddock.gate.catalogue.documents import (
    COMPLETE_ARGUMENT,
    READ_RESOURCE,
    SUBSCRIBE_RESOURCE,
    UNSUBSCRIBE_RESOURCE,
)
from paddock.manifest.model import Manifest
from paddock.manifest.names import full_name
from paddock.plugins.dialects.envelope import is_mcp_server
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import current_versions
from paddock.plugins.tool_pinning.normalize import PROMPT, TOOL
from paddock.plugins.tool_pinning.rows import listed_names
from paddock.policy.entity_names import KnownEntities
from paddock.policy.schema import SHIPPED_ROLES
from paddock.store.database import Transaction


def default_known_names() -> KnownEntities:
    """Return the names that rules can refer to in a home without a database."""
    local_users = frozenset(f"local:{account.pw_name}" for account in pwd.getpwall())
    none = frozenset[str]()
    return KnownEntities(
        {
            "User": local_users,
            "ApiKey": none,
            "Group": none,
            "Role": frozenset(SHIPPED_ROLES),
            "Plugin": none,
            "Callable": none,
        }
    )


def known_names(tx: Transaction) -> KnownEntities:
    """Return the names that rules can refer to in this home. Rules apply to all tenants, and so do the names."""
    manifests = [manifest_of(row) for row in current_versions(tx).values()]
    stored = {
        "User": [f"user:{name}" for name in _query_names(tx, "SELECT DISTINCT name FROM people")],
        "ApiKey": [f"key:{name}" for name in _query_names(tx, "SELECT id AS name FROM api_keys")],
        "Group": _query_names(tx, "SELECT DISTINCT name FROM groups"),
        "Role": _query_names(tx, "SELECT DISTINCT role AS name FROM person_roles"),
        # A plugin goes by its name as a resource and as a user of capabilities, and as `plugin:NAME` as a caller.
        "Plugin": [name for manifest in manifests for name in (manifest.name, f"plugin:{manifest.name}")],
        "Callable": [name for manifest in manifests for name in _callable_names(tx, manifest)],
    }
    defaults = default_known_names().by_type
    # Their servers list their callables when they first run, or in a trial.
    undeclared = frozenset(
        manifest.name for manifest in manifests if not manifest.callables and not _has_listed(tx, manifest)
    )
    return KnownEntities({name: defaults[name].union(stored[name]) for name in defaults}, undeclared)


def _has_listed(tx: Transaction, manifest: Manifest) -> bool:
    return is_mcp_server(manifest) and any(kind == TOOL for kind, _ in listed_names(tx, manifest.name))


def _callable_names(tx: Transaction, manifest: Manifest) -> Iterator[str]:
    """Yield the names of a plugin's callables; of a server also what it listed, and its documents and prompts."""
    for spec in manifest.callables:
        yield full_name(manifest.name, spec.name)
    if not is_mcp_server(manifest):
        return
    for spec in (READ_RESOURCE, SUBSCRIBE_RESOURCE, UNSUBSCRIBE_RESOURCE, COMPLETE_ARGUMENT):
        yield full_name(manifest.name, spec.name)
    for kind, name in listed_names(tx, manifest.name):
        if kind == TOOL:
            yield full_name(manifest.name, name)
        elif kind == PROMPT:
            yield full_name(manifest.name, f"prompt:{name}")
    for prompt in manifest.prompts:
        yield full_name(manifest.name, f"prompt:{prompt.name}")


def _query_names(tx: Transaction, query: str) -> list[str]:
    return [row["name"] for row in tx.all(query)]
