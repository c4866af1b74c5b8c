"""What a unit of work holds in its hands, and the rules every engine's transaction keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from paddock.core.errors import HostError, PaddockError

from .statement import Statement, Value, bound, checked

T = TypeVar("T")

Finish: TypeAlias = "Callable[[Transaction, list[T]], None]"
"""Does something for many units of work at once."""

Row = dict[str, Any]
"""One row by column name. Name computed columns with AS: the engines invent different names for them."""


class Transaction(Protocol):
    """What a unit of work may do. It is over when the unit returns; keep no reference to it."""

    def execute(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run a statement and say how many rows it changed."""
        ...

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """Every row of a query."""
        ...

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        """The first row of a query, or None."""
        ...

    def at_the_end(self, finish: Finish[T], item: T) -> None:
        """Have `finish` called last in this transaction, with all items that were given for it.

        For what many units do alike, and what costs less once for all of them: those that are committed together are
        finished together. Where that fails nothing of them is kept.
        """
        ...


class CheckedTransaction(ABC):
    """A transaction that takes checked statements only, and none after one has failed.

    An engine supplies `_change` and `_fetch`, which raise nothing but errors of our own tree.
    """

    def __init__(self) -> None:
        self.failure: PaddockError | None = None
        self.to_finish: dict[Finish[Any], list[Any]] = {}
        self._over = False

    def execute(self, sql: str, params: Sequence[Value] = ()) -> int:
        return self._attempt(self._change, sql, params)

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        return self._attempt(self._fetch, sql, params)

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        rows = self._attempt(self._fetch, sql, params)
        return rows[0] if rows else None

    def at_the_end(self, finish: Finish[T], item: T) -> None:
        self.to_finish.setdefault(finish, []).append(item)

    def run(self, fn: Callable[[Transaction], T]) -> T:
        """The result of a unit that is alone in its transaction, finished. Raises as `run_unfinished` does."""

        def whole(tx: Transaction) -> T:
            result = fn(tx)
            self.finish(tx)
            return result

        return self.run_unfinished(whole)

    def finish(self, tx: Transaction) -> None:
        """What was left to the end, as a unit of work."""
        for finish, items in self.to_finish.items():
            finish(tx, items)

    def run_unfinished(self, fn: Callable[[Transaction], T]) -> T:
        """The unit's result; its error, or that of a statement whose failure it swallowed, is raised."""
        try:
            result = fn(self)
        except StopIteration as error:
            raise RuntimeError("a unit of work raised StopIteration") from error  # no future can carry that one
        finally:
            self._over = True
        if self.failure is not None:
            # PostgreSQL would turn the commit into a rollback without a word; no engine may do that.
            raise self.failure
        return result

    def _attempt(self, run: Callable[[Statement, tuple[Value, ...]], T], sql: str, params: Sequence[Value]) -> T:
        if self._over:
            raise HostError("the transaction is over; a unit of work must not keep it", code="store.statement")
        if self.failure is not None:
            raise self.failure
        try:
            statement = checked(sql)
            return run(statement, bound(statement, params))
        except PaddockError as failure:
            self.failure = failure
            raise

    @abstractmethod
    def _change(self, statement: Statement, values: tuple[Value, ...]) -> int: ...

    @abstractmethod
    def _fetch(self, statement: Statement, values: tuple[Value, ...]) -> list[Row]: ...
