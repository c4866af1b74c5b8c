"""What the ledger keeps of an event: open facts, what is personal apart from them, and what it is found by. Pure.

Facts are hashed as they are and stay for ever. What is personal can be erased later, so whatever might tell of a
person, or was written by one, belongs there; a field that nobody has thought about counts as personal.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any, NamedTuple, cast

import orjson

from paddock.core.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonical_bytes
from paddock.core.clock import Random
from paddock.core.errors import CallerError
from paddock.core.event import Event, field_names, plain
from paddock.ledger.chain import SALT_BYTES, Sealed, committed

PRINCIPAL = "principal"

_PEOPLE = ("operator_id", "user_id", "accepted_by", "by", "answered_by", "requester", "person", "owner")
"""Fields that name who acted, where nothing else does; the first that says something is the principal."""

PERSONAL = frozenset(
    """
    principal operator_id user_id accepted_by by answered_by requester person owner project_id session_id agent_path message_ids user_choice
    payload_hash result_hash artifact_uri source label explanation
    line last_stderr detail sql error_message errors
    """.split()  # noqa: SIM905 - a table of words
)
FACTS = frozenset(
    """
    name plugin plugin_id plugins first second version old_version new_version local capability_diff
    method capability capabilities_count methods_count tools_count tool tool_name tables hook knob side request_id
    expected received extra missing found claimed allowed kind definition definitions standing difference old_hash
    new_hash accepted kept_back kept left_out key_id
    pid cage_id exit_code signal consecutive_failures total_failures timeout_sec limit_bytes limit_per_second rate
    notification_type violation_type duration_ms session_duration_seconds success has_result error error_code metrics
    nondeterminism model host port address bytes_up bytes_down times artifact_type size_bytes
    reason strategy message_count messages_before messages_after conflict_type resolution
    entries rows tenant callable group roles scopes change expires_at
    digest effects status error_category decision policies policy_version approval stands_for
    """.split()  # noqa: SIM905
)


class Draft(NamedTuple):
    """An event on its way into the ledger, with what is known of the call that it belongs to."""

    id: str
    at: datetime
    event: Event
    tenant: str
    call: str | None = None
    request: str | None = None
    principal: str | None = None


class Prepared(NamedTuple):
    """All of a row that does not depend on the rows before it."""

    id: str
    at: str
    type: str
    plugin: str | None
    call: str | None
    request: str | None
    principal: str | None
    facts: bytes
    personal: bytes | None
    salt: bytes | None
    commitment: bytes | None


class Entry(NamedTuple):
    """An entry of the ledger, as it is read. What was erased of it is missing in `personal`."""

    tenant: str
    seq: int
    id: str
    at: str
    type: str
    plugin: str | None
    call: str | None
    request: str | None
    facts: dict[str, Any]
    personal: dict[str, Any]
    erased: bool
    hash: str

    @property
    def data(self) -> dict[str, Any]:
        """Everything that is known, open and personal."""
        return {"type": self.type, **self.facts, **self.personal}

    def to_json(self) -> dict[str, Any]:
        """The entry as `--json` and the API show it."""
        return self._asdict()


def prepared(draft: Draft, random: Random) -> Prepared:
    """The entry of an event, with its commitment made."""
    event = draft.event
    kind = type(event)
    open_names, personal_names = _divided(kind)
    facts = {name: plain(getattr(event, name)) for name in open_names}
    personal: dict[str, Any] = {}
    for name in personal_names:
        value = getattr(event, name)
        if value is None:
            facts[name] = None  # that there is nothing tells of nobody
        else:
            personal[name] = plain(value)
    principal = draft.principal
    if principal is None and personal:
        principal = personal.get(PRINCIPAL) or next((personal[name] for name in _PEOPLE if name in personal), None)
    if principal is not None:
        personal[PRINCIPAL] = principal
    # Each costs a hash, and most entries tell of nobody.
    text = salt = commitment = None
    if personal:
        text, salt = _written(personal), random.bytes(SALT_BYTES)
        commitment = committed(salt, text)
    plugin = facts.get("name") or facts.get("plugin") or facts.get("plugin_id")
    return Prepared(
        draft.id,
        draft.at.isoformat(),
        event.type,
        plugin if _names_a_plugin(kind) else facts.get("plugin"),
        draft.call,
        draft.request or facts.get("request_id"),
        principal,
        _written(facts),
        text,
        salt,
        commitment,
    )


def read(row: Sealed) -> Entry:
    """A row as an entry."""
    return Entry(
        row.tenant,
        row.seq,
        row.id,
        row.at,
        row.type,
        row.plugin,
        row.call,
        row.request,
        orjson.loads(row.facts),
        {} if row.personal is None else orjson.loads(row.personal),
        row.erased,
        row.hash.hex(),
    )


@cache
def _divided(kind: type[Event]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    names = field_names(kind)
    return tuple(name for name in names if name in FACTS), tuple(name for name in names if name not in FACTS)


@cache
def _names_a_plugin(kind: type[Event]) -> bool:
    """Whether `name` is a plugin's: other things have names too."""
    return kind.type.startswith(("plugin.", "protocol.", "compact"))


def _written(value: dict[str, Any]) -> bytes:
    try:
        return canonical_bytes(value)
    except CallerError:
        # What a plugin wrote must not keep the ledger from being written.
        return canonical_bytes(_mended(value, MAX_DEPTH // 2))


def _mended(value: Any, depth: int) -> Any:
    """The value with what JSON has no place for as text."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict) and depth:
        pairs = cast("dict[Any, Any]", value).items()
        return {_mended(str(key), 0): _mended(inner, depth - 1) for key, inner in pairs}
    if isinstance(value, list) and depth:
        return [_mended(inner, depth - 1) for inner in cast("list[Any]", value)]
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    return _mended(str(cast("object", value))[:1000], 0)
