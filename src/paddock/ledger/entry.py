"""Ledger entries: how an event is split into facts, personal data and index columns. Pure.

Facts are hashed as they are and are kept for ever. Personal data can be erased later, so everything that may describe a
person, or was written by one, belongs there. A field that is in neither table below counts as personal.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeAlias, TypedDict, cast

import orjson

from paddock.core.canonical import MAX_DEPTH, MAX_SAFE_INTEGER, canonical_bytes
from paddock.core.clock import Random, format_utc
from paddock.core.errors import CallerError
from paddock.core.events.event import Event, to_json_value
from paddock.core.events.system import EntryUndescribed
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.ledger.entry_hash import SALT_BYTES, SealedEntry, commit_personal
from paddock.ledger.stored_row import SplitFacts, fill_template, listed_facts, select_listed, split_facts

PRINCIPAL_FIELD = "principal"

_PERSON_FIELDS = (
    "operator_id", "user_id", "accepted_by", "by", "answered_by", "given_by", "revoked_by", "requester", "person",
    "owner",
)  # fmt: skip
"""Fields that name the actor in events without a principal. The first one that is set becomes the principal."""

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
    name would plugin plugin_id plugins first second version old_version new_version local capability_diff
    method capability capabilities_count methods_count tools_count tool tools tool_name word tables hook knob side
    request_id call_id expected received extra missing found claimed allowed kind definition definitions standing
    difference old_hash new_hash accepted answered kept_back kept left_out key_id
    pid cage_id exit_code signal consecutive_failures total_failures timeout_sec limit_bytes limit_per_second rate
    notification_type violation_type duration_ms session_duration_seconds success has_result error error_code metrics
    host port address bytes_up bytes_down times artifact_type size_bytes
    reason strategy message_count messages_before messages_after conflict_type resolution
    entries rows tenant callable group roles scopes change expires_at
    digest effects status error_category decision policies policy_version approval stands_for
    binding approved state scope count underway capabilities work replay_of undisclosed recovery resolution until
    accepted_dangers webhook types event_id link session via occasion flags hints issuer fields forgotten background
    file
    """.split()  # noqa: SIM905
)


class PreEncoded(NamedTuple):
    """Facts that are already canonical JSON, split as in `stored_row.py`. Call and request ids are in the draft."""

    template: bytes
    values: bytes
    plugin: str


class SplitEvent(NamedTuple):
    """An event already split by its producer, for code that emits thousands a second. Unknown values are left out."""

    kind: type[Event]
    facts: dict[str, Any] | PreEncoded
    personal: dict[str, Any]


EventSource: TypeAlias = Event | SplitEvent | Callable[[], Event | SplitEvent]
"""An event, or a function that creates it later in the ledger's own thread."""


class EntryDraft(NamedTuple):
    """An event on its way into the ledger, with what is known of its call."""

    event: EventSource
    tenant: str
    at: datetime
    call: str | None = None
    request: str | None = None
    principal: str | None = None


IdentifiedDraft: TypeAlias = tuple[str, EntryDraft]
"""The id that the entry will have, and its draft."""


class PreparedEntry(NamedTuple):
    """The part of a row that does not depend on the rows before it."""

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
    listed: str
    """The facts by which it is listed."""
    stored: SplitFacts


class LedgerEntryJson(TypedDict):
    """One entry of a tenant's ledger."""

    tenant: str
    seq: Annotated[NonNegativeInt, "Its position in the chain of its tenant."]
    id: str
    at: DateTime
    type: Annotated[str, "The event type; see the reference of events."]
    plugin: str | None
    call: str | None
    request: str | None
    facts: dict[str, Any]
    personal: Annotated[dict[str, Any], "Personal data that has not been erased."]
    erased: Annotated[bool, "Whether personal data has been erased."]
    hash: str


class LedgerEntry(NamedTuple):
    """A ledger entry as it is read. Erased data is missing from `personal`."""

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
        """The event as it was published; null where a value was unknown or has been erased."""
        from paddock.core.events.index import EVENT_TYPES

        kind = EVENT_TYPES.get(self.type)
        fields = dict.fromkeys(kind.__struct_fields__) if kind else {}
        return {"type": self.type, **fields, **self.facts, **self.personal}

    def to_json(self) -> LedgerEntryJson:
        """Return the entry as `--json` and the API show it."""
        return {
            "tenant": self.tenant,
            "seq": self.seq,
            "id": self.id,
            "at": self.at,
            "type": self.type,
            "plugin": self.plugin,
            "call": self.call,
            "request": self.request,
            "facts": self.facts,
            "personal": self.personal,
            "erased": self.erased,
            "hash": self.hash,
        }


def prepare_entry(entry_id: str, draft: EntryDraft, random: Random) -> PreparedEntry:
    """Build the entry of an event under this id, including its commitment."""
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
    # The commitment costs a hash, and most entries hold no personal data.
    personal_bytes = salt = commitment = None
    if personal:
        personal_bytes, salt = _encode_fields(personal, plan.unsure_personal), random.bytes(SALT_BYTES)
        commitment = commit_personal(salt, personal_bytes)
    if isinstance(facts, PreEncoded):
        plugin, call, request = facts.plugin, draft.call, draft.request
        stored = SplitFacts(facts.template, facts.values)
        fact_bytes = fill_template(facts.template, facts.values, call, request)
    else:
        plugin = facts.get(plan.plugin) if plan.plugin else None
        call, request = draft.call or facts.get("call_id"), draft.request or facts.get("request_id")
        fact_bytes, plain = _encode_facts(facts, plan.unsure_facts)
        stored = split_facts(facts, fact_bytes, call, request) if plain else SplitFacts(None, fact_bytes)
    if stored.template is not None:
        listed = listed_facts(kind.type, stored.template)
    else:
        listed = select_listed(kind.type, facts)
    return PreparedEntry(
        entry_id,
        format_utc(draft.at),
        kind.type,
        plugin,
        call,
        request,
        principal,
        fact_bytes,
        personal_bytes,
        salt,
        commitment,
        listed,
        stored,
    )


def _split_event(event: Event) -> SplitEvent:
    plan = _split_plan(type(event))
    values = plan.values(event)
    # Unknown values are left out: they take space in every row and carry no information.
    facts = {name: value for name, value in zip(plan.facts, values, strict=False) if value is not None}
    personal_values = values[len(plan.facts) :]
    personal = {name: value for name, value in zip(plan.personal, personal_values, strict=False) if value is not None}
    return SplitEvent(type(event), facts, personal)


def _resolve_event(make: Callable[[], Event | SplitEvent]) -> Event | SplitEvent:
    """Create the event. If that fails, record `EntryUndescribed`: one odd call must not keep all others out."""
    try:
        return make()
    except Exception as error:
        return EntryUndescribed(type(error).__name__)


def sanitize_entry(entry: PreparedEntry) -> PreparedEntry:
    """Return the entry with ids that a database can store, so that an odd request id cannot stop the ledger.

    Lone surrogates and NUL become a question mark.
    """
    names = plugin, call, request, principal = entry[3:7]
    # An empty text is printable. This is asked of every entry, and nearly all are.
    if all(map(str.isprintable, (plugin or "", call or "", request or "", principal or ""))):
        return entry
    plugin, call, request, principal = (None if text is None else storable_text(text) for text in names)
    if names == (plugin, call, request, principal):
        return entry
    personal, commitment = entry.personal, entry.commitment
    if principal is not None and personal is not None and entry.salt is not None:
        personal = canonical_bytes({**orjson.loads(personal), PRINCIPAL_FIELD: principal})
        commitment = commit_personal(entry.salt, personal)
    return entry._replace(
        plugin=plugin,
        call=call,
        request=request,
        principal=principal,
        personal=personal,
        commitment=commitment,
        stored=SplitFacts(None, entry.facts),  # its gaps may stand for ids that are now others
    )


def storable_text(text: str) -> str:
    """Return the text as both database engines can store it."""
    return text if text.isprintable() else text.encode(errors="replace").decode().replace("\0", "?")


def read_entry(row: SealedEntry) -> LedgerEntry:
    """Turn a row into an entry. Columns that do not hold a JSON object (tampering) are shown as `unreadable`."""
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
    """Parse the JSON object of a column."""
    try:
        fields = orjson.loads(text)
        if text.count("[") + text.count("{") > MAX_DEPTH:
            canonical_bytes(fields)  # raises where it is nested too deeply to encode again
    except (ValueError, CallerError):
        fields = None
    return cast("dict[str, Any]", fields) if isinstance(fields, dict) else {"unreadable": text}


class _SplitPlan(NamedTuple):
    """How to split events of one type. Computed once, since some types occur thousands of times a second."""

    facts: tuple[str, ...]
    personal: tuple[str, ...]
    values: Callable[[Event], tuple[Any, ...]]
    plugin: str | None
    unsure_facts: tuple[str, ...]
    unsure_personal: tuple[str, ...]


_PLAIN_TYPES = ("str", "str | None", "bool", "bool | None", "tuple[str, ...]")
"""Types that orjson encodes canonically, whatever the value."""


@cache
def _split_plan(kind: type[Event]) -> _SplitPlan:
    names = kind.__struct_fields__
    facts = tuple(sorted(name for name in names if name in FACT_FIELDS))
    personal = tuple(sorted(name for name in names if name not in FACT_FIELDS))
    # In other event types `name` is not the name of a plugin.
    about_plugin = kind.type.startswith(("plugin.", "protocol.", "compact", "approval.", "call."))
    candidates = ("name", "plugin", "plugin_id") if about_plugin else ("plugin",)
    plugin = next((candidate for candidate in candidates if candidate in facts), None)
    # attrgetter returns a tuple only for two or more names, so two that always exist are appended.
    get_values = attrgetter(*facts, *personal, "type", "type")
    annotations = inspect.get_annotations(kind)
    unsure = frozenset(name for name in names if annotations[name] not in _PLAIN_TYPES)
    return _SplitPlan(
        facts,
        personal,
        get_values,
        plugin,
        tuple(name for name in facts if name in unsure),
        tuple(name for name in personal if name in unsure),
    )


def _encode_fields(fields: dict[str, Any], unsure: Iterable[str]) -> bytes:
    """Encode fields as canonical JSON. Values without such a form become text, so plugins cannot stop the ledger."""
    return _encode_facts(fields, unsure)[0]


def _encode_facts(fields: dict[str, Any], unsure: Iterable[str]) -> tuple[bytes, bool]:
    """Encode fields as `_encode_fields` does, and tell whether orjson encodes each of them canonically."""
    for name in unsure:
        if name in fields and not _is_plain_json(fields[name]):
            break
    else:
        try:
            return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS), True
        except TypeError:
            pass  # a lone surrogate
    try:
        value = to_json_value(fields)
    except (TypeError, RecursionError):  # a set of unorderable values; nested too deeply
        value = fields
    try:
        return canonical_bytes(value), False
    except CallerError:
        return canonical_bytes(_sanitize_value(value, MAX_DEPTH // 2)), False


def _is_plain_json(value: Any, depth: int = 3) -> bool:
    """Whether orjson encodes the value canonically; the fast path for most values."""
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
    """Replace values that JSON cannot represent by text."""
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
    except (ValueError, RecursionError):  # an integer with thousands of digits; nested too deeply
        return f"<{type(cast('object', value)).__name__}>"
