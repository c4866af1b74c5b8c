"""The plugin's own tables, which the host keeps: SQL goes out as a request, rows come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Rows(NamedTuple):
    """What a query found."""

    rows: list[dict[str, Any]]
    columns: list[str]


class Storage:
    """Each call is one statement and one transaction.

    Raises:
        HostRefused: the statement is wrong, or the plugin was not granted it.
    """

    def __init__(self, request: Callable[[str, dict[str, Any]], Any], namespace: str) -> None:
        self._request = request
        self._namespace = namespace

    def query(self, sql: str, params: Sequence[Any] = ()) -> Rows:
        """Read with a SELECT."""
        answer = self._request(f"{self._namespace}.storage.query", {"sql": sql, "params": list(params)})
        return Rows(answer["rows"], answer["columns"])

    def exec(self, sql: str, params: Sequence[Any] = ()) -> int:
        """Write or define tables; gives the number of rows affected."""
        answer = self._request(f"{self._namespace}.storage.exec", {"sql": sql, "params": list(params)})
        return answer["rows_affected"]

    def schema(self) -> list[str]:
        """The names of the plugin's tables."""
        return self._request(f"{self._namespace}.storage.schema", {})["tables"]
