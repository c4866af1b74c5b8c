"""Everybody and everything of this home that rules can name: people, groups, roles, keys, plugins, callables."""

from __future__ import annotations

import pwd

from paddock.manifest.names import full_name
from paddock.plugins.registry import manifest_of
from paddock.plugins.rows import current_versions
from paddock.policy.named import KnownNames
from paddock.policy.vocabulary import SHIPPED_ROLES
from paddock.store.database import Transaction


def names_before_anything_is_kept() -> KnownNames:
    """What rules can name in a home without a database."""
    at_the_terminal = frozenset(f"local:{one.pw_name}" for one in pwd.getpwall())
    none = frozenset[str]()
    return KnownNames(
        {
            "User": at_the_terminal,
            "ApiKey": none,
            "Group": none,
            "Role": frozenset(SHIPPED_ROLES),
            "Plugin": none,
            "Callable": none,
        }
    )


def known_names(tx: Transaction) -> KnownNames:
    """What rules can name in this home. The rules are those of all tenants, and so are the names."""
    manifests = [manifest_of(row) for row in current_versions(tx).values()]
    kept = {
        "User": [f"user:{name}" for name in _column(tx, "SELECT DISTINCT name FROM people")],
        "ApiKey": [f"key:{name}" for name in _column(tx, "SELECT id AS name FROM api_keys")],
        "Group": _column(tx, "SELECT DISTINCT name FROM groups"),
        "Role": _column(tx, "SELECT DISTINCT role AS name FROM person_roles"),
        # By its name where it offers something or asks the host for it; with the first word where it calls.
        "Plugin": [name for one in manifests for name in (one.name, f"plugin:{one.name}")],
        "Callable": [full_name(one.name, spec.name) for one in manifests for spec in one.callables],
    }
    always = names_before_anything_is_kept().by_type
    undeclared = frozenset(one.name for one in manifests if not one.callables)  # their server says what they offer
    return KnownNames({name: always[name].union(kept[name]) for name in always}, undeclared)


def _column(tx: Transaction, query: str) -> list[str]:
    return [row["name"] for row in tx.all(query)]
