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

    def of(self, whose: Whose) -> int | None:
        """The limit for this."""
        match whose.whose:
            case "tenant":
                return self.per_tenant
            case "principal":
                return self.per_principal
            case _:
                return self.per_plugin


NO_LIMIT = Rates()
