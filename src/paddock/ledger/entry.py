"""What the ledger keeps of an event: open facts, what is personal apart from them, and what it is found by. Pure.

Facts are hashed as they are and stay for ever. What is personal can be erased later, so whatever might tell of a
person, or was written by one, belongs there; a field that nobody has thought about counts as personal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, cast

import orjson

from paddock.core.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonical_bytes
from paddock.core.clock import Random, format_utc
from paddock.core.errors import CallerError
from paddock.core.events.event import Event, field_names, to_json_value
from paddock.core.events.system import EntryUndescribed
from paddock.ledger.entry_hash import SALT_BYTES, SealedEntry, commit_personal

PRINCIPAL_FIELD = "principal"

_PERSON_FIELDS = (
    "operator_id", "user_id", "accepted_by", "by", "answered_by", "given_by", "revoked_by", "requester", "person",
    "owner",
)  # fmt: skip
"""Fields that name who acted, where nothing else does; the first that says something is the principal."""

PERSONAL_FIELDS = frozenset(
    """
    principal operator_id user_id accepted_by by answered_by requester person owner
    project_id session_id agent_path message_ids user_choice
    payload_hash result_hash events_hash plugin_metrics nondeterminism model artifacts artifact_uri source label
    explanation line last_stderr detail details action sql error_message errors
    approved_by comment holder given_by revoked_by ended_why operator proposed secret repair
    """.split()  # noqa: SIM905 - a table of words
)
FACT_FIELDS = frozenset(
    """
    name plugin plugin_id plugins first second version old_version new_version local capability_diff
    method capability capabilities_count methods_count tools_count tool tool_name tables hook knob side request_id
    call_id expected received extra missing found claimed allowed kind definition definitions standing difference
    old_hash new_hash accepted kept_back kept left_out key_id
    pid cage_id exit_code signal consecutive_failures total_failures timeout_sec limit_bytes limit_per_second rate
    notification_type violation_type duration_ms session_duration_seconds success has_result error error_code metrics
    host port address bytes_up bytes_down times artifact_type size_bytes
    reason strategy message_count messages_before messages_after conflict_type resolution
    entries rows tenant callable group roles scopes change expires_at
    digest effects status error_category decision policies policy_version approval stands_for
    binding approved state scope count underway capabilities work replay_of undisclosed recovery resolution until
    webhook types event_id link session via occasion flags hints issuer fields forgotten
    """.split()  # noqa: SIM905
)


class PreEncoded(NamedTuple):
    """Facts that are canonical JSON already; the call and the request that they belong to stand in the draft."""

    text: bytes
    plugin: str


class SplitEvent(NamedTuple):
    """An event that is taken apart already, by whoever makes thousands a second. What is not known is left out."""

    kind: type[Event]
    facts: dict[str, Any] | PreEncoded
    personal: dict[str, Any]


EventSource: TypeAlias = Event | SplitEvent | Callable[[], Event | SplitEvent]
"""An event, or what makes it in the ledger's own time."""


class EntryDraft(NamedTuple):
    """An event on its way into the ledger, with what is known of the call that it belongs to."""

    event: EventSource
    tenant: str
    at: datetime
    call: str | None = None
    request: str | None = None
    principal: str | None = None


IdentifiedDraft: TypeAlias = tuple[str, EntryDraft]
"""With the id that it will have."""


class PreparedEntry(NamedTuple):
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


class LedgerEntry(NamedTuple):
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
        """The event as it was published; null where nothing was known, and where it was erased."""
        from paddock.core.events.index import EVENT_TYPES

        kind = EVENT_TYPES.get(self.type)
        fields = dict.fromkeys(field_names(kind)) if kind else {}
        return {"type": self.type, **fields, **self.facts, **self.personal}

    def to_json(self) -> dict[str, Any]:
        """The entry as `--json` and the API show it."""
        return self._asdict()


def prepare_entry(name: str, draft: EntryDraft, random: Random) -> PreparedEntry:
    """The entry of an event under this id, with its commitment made."""
    event = draft.event
    if not isinstance(event, (Event, SplitEvent)):
        event = _resolve_event(event)
    kind, facts, personal = _split_event(event) if isinstance(event, Event) else event
    plan = _split_plan(kind)
    principal = draft.principal
    if principal is None and personal:
        principal = personal.get(PRINCIPAL_FIELD) or next(
            (personal[name] for name in _PERSON_FIELDS if name in personal), None
        )
    if principal is not None:
        personal[PRINCIPAL_FIELD] = principal
    # Each costs a hash, and most entries tell of nobody.
    text = salt = commitment = None
    if personal:
        text, salt = _encode_fields(personal, plan.unsure_personal), random.bytes(SALT_BYTES)
        commitment = commit_personal(salt, text)
    if isinstance(facts, PreEncoded):
        found, plugin, call, request = facts.text, facts.plugin, draft.call, draft.request
    else:
        found, plugin = _encode_fields(facts, plan.unsure_facts), facts.get(plan.plugin) if plan.plugin else None
        call, request = draft.call or facts.get("call_id"), draft.request or facts.get("request_id")
    at = format_utc(draft.at)
    return PreparedEntry(name, at, kind.type, plugin, call, request, principal, found, text, salt, commitment)


def _split_event(event: Event) -> SplitEvent:
    plan = _split_plan(type(event))
    values = plan.values(event)
    # What is not known is left out: it costs room in every row, and says nothing.
    facts = {name: value for name, value in zip(plan.facts, values, strict=False) if value is not None}
    told = values[len(plan.facts) :]
    personal = {name: value for name, value in zip(plan.personal, told, strict=False) if value is not None}
    return SplitEvent(type(event), facts, personal)


def _resolve_event(make: Callable[[], Event | SplitEvent]) -> Event | SplitEvent:
    """The event; where it cannot be made that it was there, for one odd call must not keep all others out."""
    try:
        return make()
    except Exception as error:
        return EntryUndescribed(type(error).__name__)


def sanitize_entry(one: PreparedEntry) -> PreparedEntry:
    """The same with names that a database keeps, for what somebody calls a request must not stop the ledger.

    Half a character and NUL become a question mark.
    """
    names = one[3:7]
    plugin, call, request, principal = found = tuple(None if text is None else storable_text(text) for text in names)
    if found == names:
        return one
    personal, commitment = one.personal, one.commitment
    if principal is not None and personal is not None and one.salt is not None:
        personal = canonical_bytes({**orjson.loads(personal), PRINCIPAL_FIELD: principal})
        commitment = commit_personal(one.salt, personal)
    return one._replace(
        plugin=plugin, call=call, request=request, principal=principal, personal=personal, commitment=commitment
    )


def storable_text(text: str) -> str:
    """The text as both engines keep it."""
    return text if text.isprintable() else text.encode(errors="replace").decode().replace("\0", "?")


def read_entry(row: SealedEntry) -> LedgerEntry:
    """A row as an entry. What somebody else put there and is no object of JSON is shown as `unreadable`."""
    return LedgerEntry(
        row.tenant,
        row.seq,
        row.id,
        row.at,
        row.type,
        row.plugin,
        row.call,
        row.request,
        parse_object(row.facts),
        {} if row.personal is None else parse_object(row.personal),
        row.erased,
        row.hash.hex(),
    )


def parse_object(text: str) -> dict[str, Any]:
    """The fields that a column holds."""
    try:
        found = orjson.loads(text)
        if text.count("[") + text.count("{") > MAX_DEPTH:
            canonical_bytes(found)  # says where it is deeper than anybody can write it again
    except (ValueError, CallerError):
        found = None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {"unreadable": text}


class _SplitPlan(NamedTuple):
    """How events of one kind are taken apart; worked out once, for some come thousands of times a second."""

    facts: tuple[str, ...]
    personal: tuple[str, ...]
    values: Callable[[Event], tuple[Any, ...]]
    plugin: str | None
    unsure_facts: tuple[str, ...]
    unsure_personal: tuple[str, ...]


_PLAIN_TYPES = ("str", "str | None", "bool", "bool | None", "tuple[str, ...]")
"""Types that orjson writes as the standard does, whatever the value."""


@cache
def _split_plan(kind: type[Event]) -> _SplitPlan:
    names = field_names(kind)
    facts = tuple(sorted(name for name in names if name in FACT_FIELDS))
    personal = tuple(sorted(name for name in names if name not in FACT_FIELDS))
    # Other things have names too.
    of_plugins = kind.type.startswith(("plugin.", "protocol.", "compact", "approval.", "call."))
    places = ("name", "plugin", "plugin_id") if of_plugins else ("plugin",)
    plugin = next((place for place in places if place in facts), None)
    # Asked for two things or more it gives a tuple, so two are asked for that are always there.
    fetch = attrgetter(*facts, *personal, "type", "type")
    kinds = {field.name: str(field.type) for field in dataclasses.fields(cast("Any", kind))}
    unsure = frozenset(name for name in names if kinds[name] not in _PLAIN_TYPES)
    return _SplitPlan(
        facts,
        personal,
        fetch,
        plugin,
        tuple(name for name in facts if name in unsure),
        tuple(name for name in personal if name in unsure),
    )


def _encode_fields(fields: dict[str, Any], unsure: Iterable[str]) -> bytes:
    """The fields as canonical JSON; what has no such form as text, for what a plugin wrote must not stop the ledger."""
    for name in unsure:
        if name in fields and not _is_plain_json(fields[name]):
            break
    else:
        try:
            return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        except TypeError:
            pass  # half a character
    try:
        whole = to_json_value(fields)
    except (TypeError, RecursionError):  # a set of things that have no order; as deep as no JSON is
        whole = fields
    try:
        return canonical_bytes(whole)
    except CallerError:
        return canonical_bytes(_sanitize_value(whole, MAX_DEPTH // 2))


def _is_plain_json(value: Any, depth: int = 3) -> bool:
    """Whether orjson writes it as the standard does; a shorter way for most."""
    kind = cast("type[Any]", type(value))
    if kind is float:
        return 1e-5 <= abs(value) <= MAX_SAFE_INTEGER and not value.is_integer()
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER
    if kind is dict:
        return not value or (
            depth > 0
            and all(type(key) is str and key.isascii() for key in value)
            and all(_is_plain_json(inner, depth - 1) for inner in value.values())
        )
    return (kind is tuple or kind is list) and depth > 0 and all(_is_plain_json(inner, depth - 1) for inner in value)


def _sanitize_value(value: Any, depth: int) -> Any:
    """The value with what JSON has no place for as text."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict) and depth:
        pairs = cast("dict[Any, Any]", value).items()
        return {_sanitize_value(str(key), 0): _sanitize_value(inner, depth - 1) for key, inner in pairs}
    if isinstance(value, (list, tuple)) and depth:
        return [_sanitize_value(inner, depth - 1) for inner in cast("list[Any]", value)]
    if value is None or isinstance(value, bool) or (isinstance(value, int) and abs(value) <= MAX_SAFE_INTEGER):
        return value
    if isinstance(value, float) and abs(value) < float("inf"):
        return value
    try:
        return _sanitize_value(str(cast("object", value))[:1000], 0)
    except (ValueError, RecursionError):  # a number of thousands of digits; as deep as before
        return f"<{type(cast('object', value)).__name__}>"
