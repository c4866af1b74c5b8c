"""The transaction of a unit of work, and the rules that every engine's transaction keeps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

from paddock.core.errors import HostError, PaddockError
from paddock.store.statement import Statement, Value, bind_values, check_statement

T = TypeVar("T")

Engine = Literal["sqlite", "postgresql"]

CommitHook: TypeAlias = "Callable[[Transaction, list[T]], None]"
"""Runs once before a commit, for the items of many units of work."""

Row = dict[str, Any]
"""One row by column name. Name computed columns with AS: the engines invent different names for them."""


class Transaction(Protocol):
    """What a unit of work may do. It is over when the unit returns; keep no reference to it."""

    @property
    def engine(self) -> Engine: ...

    def execute(self, sql: str, params: Sequence[Value] = ()) -> int:
        """Run a statement and return how many rows it changed."""
        ...

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        """Every row of a query."""
        ...

    def tuples(self, sql: str, params: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Every row of a query as a tuple; for many rows."""
        ...

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        """The first row of a query, or None."""
        ...

    def before_commit(self, finish: CommitHook[T], item: T) -> None:
        """Have `finish` called last in this transaction, with all items that were added for it.

        For work that many units share and that is cheaper once for all of them: units that are committed together are
        finished together. If it fails, none of them is kept.
        """
        ...


class CheckedTransaction(ABC):
    """A transaction that accepts checked statements only, and none after one has failed.

    An engine supplies `_change`, `_fetch` and `_fetch_tuples`, which raise nothing but errors of our own tree.
    """

    engine: Engine

    def __init__(self) -> None:
        self.failure: PaddockError | None = None
        self.commit_hooks: dict[CommitHook[Any], list[Any]] = {}
        self._is_over = False

    def execute(self, sql: str, params: Sequence[Value] = ()) -> int:
        return self._attempt(self._change, sql, params)

    def all(self, sql: str, params: Sequence[Value] = ()) -> list[Row]:
        return self._attempt(self._fetch, sql, params)

    def tuples(self, sql: str, params: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        return self._attempt(self._fetch_tuples, sql, params)

    def one(self, sql: str, params: Sequence[Value] = ()) -> Row | None:
        rows = self._attempt(self._fetch, sql, params)
        return rows[0] if rows else None

    def before_commit(self, finish: CommitHook[T], item: T) -> None:
        self.commit_hooks.setdefault(finish, []).append(item)

    def run(self, fn: Callable[[Transaction], T]) -> T:
        """Run a unit that is alone in its transaction, then the commit hooks. Raises as `run_without_hooks` does."""

        def with_hooks(tx: Transaction) -> T:
            result = fn(tx)
            self.run_commit_hooks(tx)
            return result

        return self.run_without_hooks(with_hooks)

    def run_commit_hooks(self, tx: Transaction) -> None:
        """Run the commit hooks, as a unit of work."""
        for finish, items in self.commit_hooks.items():
            finish(tx, items)

    def run_without_hooks(self, fn: Callable[[Transaction], T]) -> T:
        """Run a unit and return its result; raises its error, or that of a statement whose failure it swallowed."""
        try:
            result = fn(self)
        except StopIteration as error:
            raise RuntimeError("a unit of work raised StopIteration") from error  # a future cannot carry StopIteration
        finally:
            self._is_over = True
        if self.failure is not None:
            # PostgreSQL would silently turn the commit into a rollback; no engine may do that.
            raise self.failure
        return result

    def _attempt(self, run: Callable[[Statement, tuple[Value, ...]], T], sql: str, params: Sequence[Value]) -> T:
        if self._is_over:
            raise HostError("the transaction is over; a unit of work must not keep it", code="store.statement")
        if self.failure is not None:
            raise self.failure
        try:
            statement = check_statement(sql)
            return run(statement, bind_values(statement, params))
        except PaddockError as failure:
            self.failure = failure
            raise

    @abstractmethod
    def _change(self, statement: Statement, values: tuple[Value, ...]) -> int: ...

    @abstractmethod
    def _fetch(self, statement: Statement, values: tuple[Value, ...]) -> list[Row]: ...

    @abstractmethod
    def _fetch_tuples(self, statement: Statement, values: tuple[Value, ...]) -> list[tuple[Any, ...]]: ...
