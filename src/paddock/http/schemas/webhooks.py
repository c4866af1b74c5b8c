"""Webhooks, and the events that are sent to them."""

from __future__ import annotations

from paddock.events.keeping import LONGEST_LABEL, LONGEST_URL
from paddock.events.patterns import MOST
from paddock.http.schemas.building import COUNT, TEXT, TEXTS, TIME, YES_NO, Schema, body, listed, maybe, record, said

_WEBHOOK: dict[str, Schema] = {
    "tenant": TEXT,
    "id": TEXT,
    "url": TEXT,
    "label": TEXT,
    "types": said(TEXTS, "Which events: `call.ended`, `plugin.*`, or `*` for all."),
    "personal": said(YES_NO, "Whether what entries say of people is sent too."),
    "enabled": YES_NO,
    "disabled_why": maybe(
        said(TEXT, "`operator`; `gone`: the receiver said 410; `dead_full`: it took nothing for too long.")
    ),
    "created_at": TIME,
    "created_by": TEXT,
    "before_until": maybe(said(TIME, "Until when events are signed with the secret before too.")),
    "position": said(COUNT, "The last entry of the ledger that it needs not be sent any more."),
    "attempts": said(COUNT, "How often the one after that was sent."),
    "reason": maybe(said(TEXT, "Why the last attempt failed.")),
    "failing_at": maybe(TIME),
    "delivered": said(COUNT, "How many events it took."),
    "delivered_at": maybe(TIME),
    "dead": said(COUNT, "How many dead letters it has."),
    "next_at": maybe(
        said(TIME, "When it is tried again, where it fails. A time that is over: now, or once a daemon runs.")
    ),
}

_DEAD: dict[str, Schema] = {
    "seq": COUNT,
    "event_id": TEXT,
    "type": TEXT,
    "attempts": COUNT,
    "reason": TEXT,
    "died_at": TIME,
    "again": said(YES_NO, "Whether somebody asked for another try, which is to come."),
}

_SECRET = said(TEXT, "What signs its events. It is shown here and never again.")

ADD = body(
    {
        "url": {**TEXT, "minLength": 1, "maxLength": LONGEST_URL},
        "types": {**TEXTS, "maxItems": MOST},
        "label": {**TEXT, "maxLength": LONGEST_LABEL},
        "personal": YES_NO,
    },
    required=("url",),
    example={"url": "https://hooks.example.invalid/paddock", "types": ["call.*"]},
)
ENABLE = body({"from_now": said(YES_NO, "Leave out what happened meanwhile.")}, example={"from_now": True})
ROTATE = body(
    {"keep_hours": {**COUNT, "maximum": 720, "description": "How long the secret before signs too (24)."}},
    example={"keep_hours": 24},
)
RETRY = body({"event": said(TEXT, "The id of one event; all dead letters without.")}, example={})

SCHEMAS: dict[str, Schema] = {
    "Webhook": record(_WEBHOOK, says="Whom a tenant's events are sent to."),
    "WebhookWithSecret": record({**_WEBHOOK, "secret": _SECRET}),
    "Webhooks": record({"webhooks": listed(record(_WEBHOOK))}),
    "WebhookTest": record(
        {"taken": YES_NO, "status": maybe(COUNT), "reason": said(TEXT, "Why it was not taken; empty where it was.")}
    ),
    "DeadLetters": record({"dead": listed(record(_DEAD))}),
    "WebhookRetry": record({"asked": said(COUNT, "How many are tried again.")}),
}
