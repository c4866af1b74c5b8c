"""Ledger entries: drafts, what is prepared of them to be written, and what is read. Pure.

Which fields of an event are facts and which are personal is said in `entry_fields.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, NamedTuple, TypeAlias, TypedDict, cast

import orjson

from paddock.core.canonical import MAX_DEPTH, canonical_bytes
from paddock.core.clock import Random, format_utc
from paddock.core.errors import CallerError
from paddock.core.events.event import Event
from paddock.core.events.system import EntryUndescribed
from paddock.core.schema_annotations import DateTime, NonNegativeInt
from paddock.ledger.entry_fields import EncodedFacts, encode_fields, split_plan
from paddock.ledger.entry_hash import SALT_BYTES, SealedEntry, commit_personal
from paddock.ledger.stored_row import SplitFacts, fill_template, listed_facts

PRINCIPAL_FIELD = "principal"

_PERSON_FIELDS = (
    "operator_id", "user_id", "accepted_by", "by", "answered_by", "given_by", "revoked_by", "requester", "person",
    "owner",
)  # fmt: skip
"""Fields that name the actor in events without a principal. The first one that is set becomes the principal."""


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
    if isinstance(event, Event):
        plan = split_plan(type(event))
        values = plan.values(event)
        personal = plan.personal_of(values)
        encoded = plan.encode(values, draft.call, draft.request)
    else:
        kind, facts, personal = event
        plan = split_plan(kind)
        if isinstance(facts, PreEncoded):
            encoded = EncodedFacts(
                facts.plugin,
                draft.call,
                draft.request,
                fill_template(facts.template, facts.values, draft.call, draft.request),
                SplitFacts(facts.template, facts.values),
                listed_facts(kind.type, facts.template),
            )
        else:
            encoded = plan.encode_facts(facts, draft.call, draft.request)
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
        personal_bytes, salt = encode_fields(personal, plan.unsure_personal), random.bytes(SALT_BYTES)
        commitment = commit_personal(salt, personal_bytes)
    return PreparedEntry(
        entry_id,
        format_utc(draft.at),
        plan.type,
        encoded.plugin,
        encoded.call,
        encoded.request,
        principal,
        encoded.text,
        personal_bytes,
        salt,
        commitment,
        encoded.listed,
        encoded.stored,
    )


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
