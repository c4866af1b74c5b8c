"""Stores every version of the rules that was ever in force, so that old decisions can be explained.

A version is named by its content; rules that come back have the same version. All functions take a transaction.
"""

from __future__ import annotations

import json
from typing import Any, cast

from msgspec import Struct, to_builtins

from paddock.core.action import Action
from paddock.core.errors import HostError
from paddock.policy.annotations import ApprovalRequirement
from paddock.policy.rules import Rule, RuleSet, rules_version
from paddock.policy.schema import Vocabulary
from paddock.store.transaction import Transaction


class PolicyVersion(Struct, frozen=True):
    """A version, and since when it was in force."""

    version: str
    since: str


def activate_version(tx: Transaction, rules: RuleSet, now: str) -> bool:
    """Record that these rules are in force from now on; return whether they differ from the previous ones."""
    latest = current_version(tx)
    if latest is not None and latest.version == rules.version:
        return False
    # Two hosts of one database may start at the same moment with the same rules.
    tx.execute(
        "INSERT INTO policy_versions (version, document, first_at) VALUES (?, ?, ?) ON CONFLICT (version) DO NOTHING",
        (rules.version, _version_json(rules), now),
    )
    tx.execute(
        "INSERT INTO policy_in_force (since, version) VALUES (?, ?) ON CONFLICT (since, version) DO NOTHING",
        (now, rules.version),
    )
    return True


def load_version(tx: Transaction, version: str) -> RuleSet | None:
    """Load the rules of a version; None if it was never in force here.

    Rules of an older release may violate today's schema. They are for reading: rules that decide come from
    `checked_rules` alone.

    Raises:
        HostError: the stored rules are not those that were in force: the row was altered.
    """
    row = tx.one("SELECT document FROM policy_versions WHERE version = ?", (version,))
    if row is None:
        return None
    document = cast("dict[str, Any]", json.loads(row["document"]))
    rules = tuple(_rule_from_json(rule) for rule in cast("list[dict[str, Any]]", document["rules"]))
    if rules_version(rules, document["schema"]) != version:
        raise HostError(
            f"the stored rules of version {version} are not those that were in force",
            code="policy.version_changed",
            hint="the database was modified outside of Paddock",
            action=Action.of("ledger.verify"),
        )
    return RuleSet(rules, Vocabulary(tuple(document["tags"])))


def list_versions(tx: Transaction, limit: int = 50) -> list[PolicyVersion]:
    """List the versions that were in force, newest first."""
    rows = tx.all("SELECT version, since FROM policy_in_force ORDER BY since DESC LIMIT ?", (limit,))
    return [PolicyVersion(**row) for row in rows]


def current_version(tx: Transaction) -> PolicyVersion | None:
    """Return the version that is or was last in force; None before the first."""
    return next(iter(list_versions(tx, 1)), None)


def _version_json(rules: RuleSet) -> str:
    rule_items = [to_builtins(rule) for rule in rules.rules]
    return json.dumps({"rules": rule_items, "schema": rules.schema, "tags": rules.vocabulary.tags}, ensure_ascii=False)


def _rule_from_json(document: dict[str, Any]) -> Rule:
    requirement: dict[str, Any] = {**document["wanted"], "approvers": tuple(document["wanted"]["approvers"])}
    fields: dict[str, Any] = {**document, "wanted": ApprovalRequirement(**requirement)}
    return Rule(**fields)
