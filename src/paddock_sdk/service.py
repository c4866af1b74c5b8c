"""A service of the host: its operations become requests on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from paddock_sdk.answer import Answer
from paddock_sdk.call import JsonObject


class Ask(Protocol):
    """Sends a request to the host."""

    def __call__(
        self,
        method: str,
        params: JsonObject,
        *,
        convert: Callable[[Any], Any] | None = None,
        undeclared: bool = False,
    ) -> Answer[Any]: ...


class Service:
    """One service of the host; its methods are the operations that the host serves."""

    def __init__(self, ask: Ask, wire_name: str, *, declared: bool) -> None:
        self._ask = ask
        self._wire_name = wire_name
        self._declared = declared

    def __bool__(self) -> bool:
        """Whether the plugin declared it."""
        return self._declared

    def ask(self, operation: str, params: JsonObject, convert: Callable[[Any], Any] | None = None) -> Answer[Any]:
        """Request an operation, with parameters as they are on the wire."""
        method = f"{self._wire_name}.{operation}"
        return self._ask(method, params, convert=convert, undeclared=not self._declared)
