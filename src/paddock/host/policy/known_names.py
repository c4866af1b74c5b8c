"""Everybody and everything of this home that rules can name: people, groups, roles, keys, plugins, callables."""

from __future__ import annotations

import pwd

from paddock.manifest.names import full_name
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import current_versions
from paddock.policy.entity_names import KnownEntities
from paddock.policy.schema import SHIPPED_ROLES
from paddock.store.database import Transaction


def default_known_names() -> KnownEntities:
    """What rules can name in a home without a database."""
    at_the_terminal = frozenset(f"local:{one.pw_name}" for one in pwd.getpwall())
    none = frozenset[str]()
    return KnownEntities(
        {
            "User": at_the_terminal,
            "ApiKey": none,
            "Group": none,
            "Role": frozenset(SHIPPED_ROLES),
            "Plugin": none,
            "Callable": none,
        }
    )


def known_names(tx: Transaction) -> KnownEntities:
    """What rules can name in this home. The rules are those of all tenants, and so are the names."""
    manifests = [manifest_of(row) for row in current_versions(tx).values()]
    kept = {
        "User": [f"user:{name}" for name in _query_names(tx, "SELECT DISTINCT name FROM people")],
        "ApiKey": [f"key:{name}" for name in _query_names(tx, "SELECT id AS name FROM api_keys")],
        "Group": _query_names(tx, "SELECT DISTINCT name FROM groups"),
        "Role": _query_names(tx, "SELECT DISTINCT role AS name FROM person_roles"),
        # By its name where it offers something or asks the host for it; with the first word where it calls.
        "Plugin": [name for one in manifests for name in (one.name, f"plugin:{one.name}")],
        "Callable": [full_name(one.name, spec.name) for one in manifests for spec in one.callables],
    }
    always = default_known_names().by_type
    undeclared = frozenset(one.name for one in manifests if not one.callables)  # their server says what they offer
    return KnownEntities({name: always[name].union(kept[name]) for name in always}, undeclared)


def _query_names(tx: Transaction, query: str) -> list[str]:
    return [row["name"] for row in tx.all(query)]
