"""What a person may do: roles, scopes and groups, as the rows have them; and what of it a key may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from paddock.core.call import OPERATOR
from paddock.store.transaction import Transaction


@dataclass(frozen=True, slots=True)
class Rights:
    """Roles decide through rules, scopes open callables that are kept to them, groups are for rules to speak of."""

    roles: frozenset[str] = frozenset()
    scopes: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def beyond(self, roles: Iterable[str], scopes: Iterable[str]) -> list[str]:
        """Which of these they do not have themselves, and so cannot hand on."""
        lacking = [] if OPERATOR in self.roles else sorted({*scopes} - self.scopes)
        return sorted({*roles} - self.roles) + lacking

    def within(self, roles: frozenset[str], scopes: frozenset[str]) -> Rights:
        """What is left of these for a key of theirs: never more than they have now, whatever they had once."""
        return Rights(roles & self.roles, scopes if OPERATOR in self.roles else scopes & self.scopes, self.groups)


def rights_of(tx: Transaction, tenant: str, person: str) -> Rights:
    """Everything that a person has, in one look."""
    rows = tx.all(
        "SELECT 'role' AS kind, role AS word FROM person_roles WHERE tenant = ? AND person = ? "
        "UNION ALL SELECT 'scope' AS kind, scope AS word FROM person_scopes WHERE tenant = ? AND person = ? "
        "UNION ALL SELECT 'group' AS kind, group_name AS word FROM group_members WHERE tenant = ? AND person = ?",
        (tenant, person) * 3,
    )
    return Rights(
        *(frozenset(row["word"] for row in rows if row["kind"] == kind) for kind in ("role", "scope", "group"))
    )
