"""A service of the host: its operations become requests on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from paddock_sdk.answer import Answer
from paddock_sdk.call import JsonObject

# The names of positional arguments on the wire.
POSITIONAL_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "audit.record": ("event",),
    "auth.provider_service_account_token": ("provider", "scopes", "subject"),
    "auth.provider_user_token": ("provider", "required_scopes"),
    "auth.resolve_token_and_target": ("provider",),
    "cursor.get": ("name",),
    "cursor.set": ("name", "value"),
    "http.fetch": ("request",),
    "identity.lookup": ("kind", "value"),
    "kb.ingest": ("kb_id",),
    "kb.ingest_document": ("kb_id",),
    "kb.ingest_email": ("kb_id", "subject", "sender", "recipients", "date", "message_id", "thread_id", "body_text",
                        "labels"),
    "kb.ingest_text": ("kb_id",),
    "kb.ingest_thread": ("kb_id",),
    "query.run": ("query",),
    "rate.limit": ("bucket", "cost"),
    "scheduler.enqueue": ("task", "run_at"),
    "secrets.get": ("name",),
}  # fmt: skip


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
    """One service of the host. Any operation can be called; the host decides whether it exists."""

    def __init__(self, ask: Ask, wire_name: str, *, declared: bool) -> None:
        self._ask = ask
        self._wire_name = wire_name
        self._declared = declared

    def __bool__(self) -> bool:
        """Whether the plugin declared it."""
        return self._declared

    def __getattr__(self, operation: str) -> Callable[..., Answer[Any]]:
        if operation.startswith("_"):
            raise AttributeError(operation)
        names = POSITIONAL_ARGUMENTS.get(f"{self._wire_name.rpartition('.')[2]}.{operation}", ())

        def request(*args: Any, **kwargs: Any) -> Answer[Any]:
            if len(args) > len(names):
                raise TypeError(f"{operation}() takes {len(names)} positional arguments; name the others")
            return self.ask(operation, {**dict(zip(names, args, strict=False)), **kwargs})

        return request

    def ask(self, operation: str, params: JsonObject, convert: Callable[[Any], Any] | None = None) -> Answer[Any]:
        """Request an operation, with parameters as they are on the wire."""
        method = f"{self._wire_name}.{operation}"
        return self._ask(method, params, convert=convert, undeclared=not self._declared)
