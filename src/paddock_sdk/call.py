"""One call as a handler sees it: its own parameters, and apart from them who is calling."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

JsonObject: TypeAlias = dict[str, Any]


# A named tuple and not a dataclass: importing `dataclasses` alone costs a third of a plugin's start.
class Context(NamedTuple):
    """Who is calling. Project, agent and session are all known, or all None for a call of the host's own.

    `scopes` are those of the callable's `required_scopes` that the caller has. A call with an effect has an
    `idempotency_key`: it is the same when the host makes the call again to find out what became of it.
    """

    operator_id: str | None = None
    project_id: str | None = None
    agent_path: str | None = None
    session_id: str | None = None
    request_id: str = ""
    scopes: tuple[str, ...] = ()
    idempotency_key: str | None = None


class ActiveCall:
    """The call that is being worked on: its id, the token that names it to the host, and whether it is still wanted."""

    __slots__ = ("cancelled", "id", "on_cancel", "token")

    def __init__(
        self, request_id: int | str | None, token: str | None, on_cancel: Callable[[], object] | None = None
    ) -> None:
        self.id = request_id  # None: nobody waits for it, or for what is told about it
        self.token = token
        self.cancelled = False
        self.on_cancel = on_cancel

    def cancel(self) -> None:
        """Whoever called does not want the answer any more."""
        self.cancelled = True
        if self.on_cancel is not None:
            self.on_cancel()


NO_CALLER = Context()
_TEXT_FIELDS = ("operator_id", "project_id", "agent_path", "session_id", "request_id", "idempotency_key")


def take_context(params: JsonObject) -> tuple[Context, str | None]:
    """The context and the call's token, taken out of the parameters; what stays is the handler's own."""
    given = params.pop("_context", None)
    token = params.pop("_call", None)
    context = _context(cast("JsonObject", given)) if given and isinstance(given, dict) else NO_CALLER
    return context, token if isinstance(token, str) else None


def _context(fields: JsonObject) -> Context:
    known = {name: value for name in _TEXT_FIELDS if isinstance(value := fields.get(name), str)}
    return Context(**known, scopes=tuple(string_items(fields.get("scopes"))))


def string_items(value: Any) -> list[str]:
    """The texts in a list; none where it is something else."""
    entries = cast("list[Any]", value) if isinstance(value, list | tuple) else []
    return [one for one in entries if isinstance(one, str)]
