"""One call as a handler sees it: its parameters, and separately the caller's context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

JsonObject: TypeAlias = dict[str, Any]


# A named tuple and not a dataclass: importing `dataclasses` takes a third of a plugin's start time.
class Context(NamedTuple):
    """The caller's context. Project, agent and session are all set, or all None for a call by the host itself.

    `scopes` are those of the callable's `required_scopes` that the caller has. A call with an effect has an
    `idempotency_key`: it is the same when the host repeats the call to find out its outcome.
    """

    operator_id: str | None = None
    project_id: str | None = None
    agent_path: str | None = None
    session_id: str | None = None
    request_id: str = ""
    scopes: tuple[str, ...] = ()
    idempotency_key: str | None = None


class ActiveCall:
    """A call in progress: its id, its token for requests to the host, and whether it was cancelled."""

    __slots__ = ("cancelled", "id", "on_cancel", "token")

    def __init__(
        self, request_id: int | str | None, token: str | None, on_cancel: Callable[[], object] | None = None
    ) -> None:
        self.id = request_id  # None: a notification, whose caller waits for no result or events
        self.token = token
        self.cancelled = False
        self.on_cancel = on_cancel

    def cancel(self) -> None:
        """Mark the call as cancelled: the caller no longer wants the result."""
        self.cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()


NO_CALLER = Context()
_TEXT_FIELDS = ("operator_id", "project_id", "agent_path", "session_id", "request_id", "idempotency_key")


def take_context(params: JsonObject) -> tuple[Context, str | None]:
    """Remove and return the context and the call token; the handler's own parameters remain."""
    fields = params.pop("_context", None)
    token = params.pop("_call", None)
    context = _context(cast("JsonObject", fields)) if fields and isinstance(fields, dict) else NO_CALLER
    return context, token if isinstance(token, str) else None


def _context(fields: JsonObject) -> Context:
    values = {name: value for name in _TEXT_FIELDS if isinstance(value := fields.get(name), str)}
    return Context(**values, scopes=tuple(string_items(fields.get("scopes"))))


def string_items(value: Any) -> list[str]:
    """Return the strings of a list; none if the value is not a list."""
    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return [one for one in entries if isinstance(one, str)]
