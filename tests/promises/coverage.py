"""Which tests prove which promise: a pure function of the list, the marks and the last outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from promises.catalogue import Catalogue, Promise


@dataclass(frozen=True, slots=True)
class Claim:
    """A test says that it proves a promise, or one row of it."""

    promise_id: str
    row: str | None
    test: str


@dataclass(frozen=True, slots=True)
class Standing:
    """How one promise stands."""

    promise: Promise
    tests: tuple[str, ...]
    failing: tuple[str, ...]
    missing_rows: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Tests exist for all of it, and none of them failed when it last ran."""
        return bool(self.tests) and not self.failing and not self.missing_rows

    @property
    def rows_proven(self) -> int:
        return len(self.promise.rows) - len(self.missing_rows)


def standings(catalogue: Catalogue, claims: Iterable[Claim], outcomes: Mapping[str, str]) -> list[Standing]:
    """Every promise with its tests.

    A test that failed or was skipped when it last ran proves nothing. One that has not been run since it was written
    counts, because the table speaks of tests that exist.
    """
    by_promise: dict[str, list[Claim]] = {promise_id: [] for promise_id in catalogue.promises}
    for claim in claims:
        by_promise[claim.promise_id].append(claim)
    return [_standing(promise, by_promise[promise_id], outcomes) for promise_id, promise in catalogue.promises.items()]


def _standing(promise: Promise, claims: list[Claim], outcomes: Mapping[str, str]) -> Standing:
    good = [claim for claim in claims if outcomes.get(claim.test, "passed") == "passed"]
    rows = {claim.row for claim in good}
    return Standing(
        promise,
        tests=tuple(dict.fromkeys(claim.test for claim in good)),
        failing=tuple(dict.fromkeys(claim.test for claim in claims if claim not in good)),
        missing_rows=tuple(row for row in promise.rows if row not in rows),
    )
