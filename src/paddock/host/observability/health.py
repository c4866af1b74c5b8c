"""The health of a running host as a whole: whether it takes calls, and which problems need attention."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, TypedDict

from msgspec import Struct

from paddock.core.error_formats import ErrorJson, error_to_json
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.policy.active_policy import ActivePolicy
from paddock.ledger.write.writer import LedgerWriter

HealthSubject: TypeAlias = Literal["ledger", "checkpoints", "rules"]


class HealthProblemJson(ErrorJson):
    """A problem of the daemon itself."""

    about: Annotated[
        HealthSubject,
        "`ledger`: nothing can be recorded; `checkpoints`: none can be signed; `rules`: the policy files have mistakes,"
        " and the previous rules stay in force.",
    ]


class HealthJson(TypedDict):
    """The health of the daemon."""

    takes_calls: bool
    troubles: list[HealthProblemJson]


class HostHealth(Struct, frozen=True):
    """Reports the parts that can fail without any call having failed yet.

    Attributes:
        ledger: If it fails nothing can be recorded, and what cannot be recorded is not done.
        rules: If their files have mistakes the previous rules stay in force.
    """

    ledger: LedgerWriter
    rules: ActivePolicy

    @property
    def blocking_error(self) -> PaddockError | None:
        """Why no call at all is taken right now. If the chain of one tenant is broken, the others continue."""
        return self.ledger.failing or self.ledger.broken.get(DEFAULT_TENANT)

    def to_json(self) -> HealthJson:
        """Serialize whether calls are taken, and every problem with its subject; those that stop calls come first."""
        problems: list[tuple[HealthSubject, PaddockError | None]] = [
            ("ledger", self.ledger.failing),
            *(("ledger", error) for _, error in sorted(self.ledger.broken.items())),
            ("checkpoints", self.ledger.unsigned),
            ("rules", self.rules.load_error),
        ]
        troubles: list[HealthProblemJson] = [
            {"about": subject, **error_to_json(error)} for subject, error in problems if error is not None
        ]
        return {"takes_calls": self.blocking_error is None, "troubles": troubles}
