"""Every version of the rules that was ever in force, whole, so that an old decision can be explained.

A version is named by its content; the same rules that come back have the same name. Functions of a transaction.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, cast

from paddock.core.errors import HostError
from paddock.policy.annotations import ApprovalRequirement
from paddock.policy.rules import Rule, RuleSet, rules_version
from paddock.policy.schema import Vocabulary
from paddock.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class PolicyVersion:
    """A version, and since when it decided."""

    version: str
    since: str


def activate_version(tx: Transaction, rules: RuleSet, now: str) -> bool:
    """Note that these rules decide from now on; whether they are others than before."""
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
    """The rules of a version, or None where it never was in force here.

    Rules of an older program may not fit today's schema. They are for reading; only what `checked_rules` gives decides.

    Raises:
        HostError: what is kept is not what was in force: somebody changed the row.
    """
    row = tx.one("SELECT document FROM policy_versions WHERE version = ?", (version,))
    if row is None:
        return None
    kept = cast("dict[str, Any]", json.loads(row["document"]))
    rules = tuple(_rule_from_json(one) for one in cast("list[dict[str, Any]]", kept["rules"]))
    if rules_version(rules, kept["schema"]) != version:
        raise HostError(
            f"the rules that are kept as {version} are not those that were in force",
            code="policy.version_changed",
            hint="somebody changed the database; see: paddock ledger verify",
        )
    return RuleSet(rules, Vocabulary(tuple(kept["tags"])))


def list_versions(tx: Transaction, limit: int = 50) -> list[PolicyVersion]:
    """Which versions were in force, the newest first."""
    rows = tx.all("SELECT version, since FROM policy_in_force ORDER BY since DESC LIMIT ?", (limit,))
    return [PolicyVersion(**row) for row in rows]


def current_version(tx: Transaction) -> PolicyVersion | None:
    """The version that decides, or decided last; None before the first."""
    return next(iter(list_versions(tx, 1)), None)


def _version_json(rules: RuleSet) -> str:
    listed = [dataclasses.asdict(rule) for rule in rules.rules]
    return json.dumps({"rules": listed, "schema": rules.schema, "tags": rules.vocabulary.tags}, ensure_ascii=False)


def _rule_from_json(kept: dict[str, Any]) -> Rule:
    wanted: dict[str, Any] = {**kept["wanted"], "approvers": tuple(kept["wanted"]["approvers"])}
    whole: dict[str, Any] = {**kept, "wanted": ApprovalRequirement(**wanted)}
    return Rule(**whole)
