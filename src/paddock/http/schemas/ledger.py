"""Entries of the ledger."""

from __future__ import annotations

from paddock.http.schemas.building import (
    COUNT,
    OBJECT,
    TEXT,
    TEXTS,
    TIME,
    YES_NO,
    Schema,
    listed,
    maybe,
    record,
    ref,
    said,
)

_ENTRY: dict[str, Schema] = {
    "tenant": TEXT,
    "seq": said(COUNT, "Its number in the chain of its tenant."),
    "id": TEXT,
    "at": TIME,
    "type": said(TEXT, "As in the reference of events."),
    "plugin": maybe(TEXT),
    "call": maybe(TEXT),
    "request": maybe(TEXT),
    "facts": OBJECT,
    "personal": said(OBJECT, "What it says of people, as far as that was not erased."),
    "erased": YES_NO,
    "hash": TEXT,
}

SCHEMAS: dict[str, Schema] = {
    "LedgerEntry": record(_ENTRY),
    "LedgerPage": record(
        {
            "tenant": TEXT,
            "entries": listed(ref("LedgerEntry")),
            "next": maybe(said(COUNT, "What to give as `before` for those before them; null where there are none.")),
        }
    ),
    "LedgerStory": record(
        {
            "entries": listed(ref("LedgerEntry")),
            "altered": said(TEXTS, "The ids of those that are not what was recorded."),
        },
        says="One entry, or everything that was recorded of one call or request, in order.",
    ),
}
