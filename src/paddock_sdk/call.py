"""One call as a handler sees it: its own parameters, and apart from them who is calling."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias, cast

JsonObject: TypeAlias = dict[str, Any]


# A named tuple and not a dataclass: importing `dataclasses` alone costs a third of a plugin's start.
class Context(NamedTuple):
    """Who is calling. Project, agent and session are all known, or all None for a call of the host's own."""

    operator_id: str | None = None
    project_id: str | None = None
    agent_path: str | None = None
    session_id: str | None = None
    request_id: str = ""


def split(params: JsonObject) -> tuple[JsonObject, Context, str | None]:
    """The handler's own parameters, the context, and the token that names this call to the host."""
    own = {key: value for key, value in params.items() if key not in ("_context", "_call")}
    given = params.get("_context")
    fields = cast("JsonObject", given) if isinstance(given, dict) else {}
    known = {name: fields[name] for name in Context._fields if isinstance(fields.get(name), str)}
    token = params.get("_call")
    return own, Context(**known), token if isinstance(token, str) else None
