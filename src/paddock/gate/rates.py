"""How many calls in a time: for a tenant, for whoever calls, and of a plugin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Whose(NamedTuple):
    """What is counted: a tenant as a whole, one who calls, or a plugin, each within its tenant."""

    tenant: str
    whose: str
    name: str

    def had(self, most: int) -> str:
        """What whoever is refused is told of it."""
        verb = "had" if self.whose == "plugin" else "made"
        return f"{self.name or 'your tenant'} has {verb} {most:,} calls"


@dataclass(frozen=True, slots=True)
class Rates:
    """So many calls; None sets no limit."""

    per_tenant: int | None = None
    per_principal: int | None = None
    per_plugin: int | None = None

    def of(self, tenant: str, principal: str, plugin: str) -> list[tuple[Whose, int]]:
        """The limits that a call counts for."""
        every = (
            (Whose(tenant, "tenant", ""), self.per_tenant),
            (Whose(tenant, "principal", principal), self.per_principal),
            (Whose(tenant, "plugin", plugin), self.per_plugin),
        )
        return [(whose, most) for whose, most in every if most is not None]


NO_LIMIT = Rates()
