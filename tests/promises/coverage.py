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
    """How one promise stands.

    Attributes:
        promise: What is promised.
        tests: Those that passed when they last ran.
        tests_of_rows: The same by row; without a row where the promise has none.
        failing: Those that failed or were skipped when they last ran.
        never_run: Those that have not been run here since they were written.
        missing_rows: Rows that no test speaks of, but for failing ones.
        unseen_rows: Rows whose tests have never run.
    """

    promise: Promise
    tests: tuple[str, ...]
    tests_of_rows: Mapping[str | None, tuple[str, ...]]
    failing: tuple[str, ...]
    never_run: tuple[str, ...]
    missing_rows: tuple[str, ...]
    unseen_rows: tuple[str, ...]

    @property
    def proven(self) -> bool:
        """Tests exist for all of it, and every one of them passed when it last ran."""
        return self.complete and not self.never_run

    @property
    def complete(self) -> bool:
        """Tests exist for all of it, and none is known not to pass."""
        return bool(self.tests or self.never_run) and not self.failing and not self.missing_rows

    @property
    def rows_proven(self) -> int:
        return len(self.promise.rows) - len(self.missing_rows) - len(self.unseen_rows)


def standings(catalogue: Catalogue, claims: Iterable[Claim], outcomes: Mapping[str, str]) -> list[Standing]:
    """Every promise with its tests.

    A test that failed or was skipped when it last ran proves nothing, and one that has not been run here proves nothing
    yet.
    """
    by_promise: dict[str, list[Claim]] = {promise_id: [] for promise_id in catalogue.promises}
    for claim in claims:
        by_promise[claim.promise_id].append(claim)
    return [_standing(promise, by_promise[promise_id], outcomes) for promise_id, promise in catalogue.promises.items()]


def _standing(promise: Promise, claims: list[Claim], outcomes: Mapping[str, str]) -> Standing:
    passed = [claim for claim in claims if outcomes.get(claim.test) == "passed"]
    unseen = [claim for claim in claims if claim.test not in outcomes]
    proven_rows, unseen_rows = ({claim.row for claim in some} for some in (passed, unseen))
    return Standing(
        promise,
        tests=_tests(passed),
        tests_of_rows={row: _tests(claim for claim in passed if claim.row == row) for row in promise.rows or (None,)},
        failing=_tests(claim for claim in claims if claim not in passed and claim not in unseen),
        never_run=_tests(unseen),
        missing_rows=tuple(row for row in promise.rows if row not in proven_rows | unseen_rows),
        unseen_rows=tuple(row for row in promise.rows if row in unseen_rows - proven_rows),
    )


def _tests(claims: Iterable[Claim]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(claim.test for claim in claims))
