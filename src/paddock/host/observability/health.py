"""How a running host is doing as a whole: whether it takes calls, and what somebody has to mend."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paddock.core.error_mapping import error_to_json
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.policy.active_policy import ActivePolicy
from paddock.ledger.write.writer import LedgerWriter


@dataclass(frozen=True, slots=True)
class HostHealth:
    """Looks at the parts that can be in trouble without anybody's call having failed yet.

    Attributes:
        ledger: Without it nothing can be recorded, and what cannot be recorded is not done.
        rules: Those in force stay when their files have mistakes.
    """

    ledger: LedgerWriter
    rules: ActivePolicy

    @property
    def blocking_error(self) -> PaddockError | None:
        """Why no call is taken right now, of anybody: where one tenant's chain is broken, the others go on."""
        return self.ledger.failing or self.ledger.broken.get(DEFAULT_TENANT)

    def to_json(self) -> dict[str, Any]:
        """Whether calls are taken, and every trouble with what it is about; what keeps calls out comes first."""
        found = [
            ("ledger", self.ledger.failing),
            *(("ledger", error) for _, error in sorted(self.ledger.broken.items())),
            ("checkpoints", self.ledger.unsigned),
            ("rules", self.rules.load_error),
        ]
        troubles = [{"about": about, **error_to_json(error)} for about, error in found if error is not None]
        return {"takes_calls": self.blocking_error is None, "troubles": troubles}
