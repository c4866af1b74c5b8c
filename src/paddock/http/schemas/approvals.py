"""Requests for a person's yes, and the yes that lasts."""

from __future__ import annotations

from paddock.http.schemas.building import (
    COUNT,
    OBJECT,
    TEXT,
    TEXTS,
    TIME,
    YES_NO,
    Schema,
    body,
    listed,
    maybe,
    one_of,
    record,
    said,
)
from paddock.policy.approvals.answering import REACHES, SCOPES
from paddock.policy.approvals.approval import State

_PREVIEW: dict[str, Schema] = {
    "plugin": TEXT,
    "callable": TEXT,
    "does": TEXTS,
    "says": TEXT,
    "params": said(OBJECT, "Not in lists."),
    "requester": TEXT,
    "reason": TEXT,
}

_ANSWER: dict[str, Schema] = {
    "by": TEXT,
    "operator": maybe(TEXT),
    "approved": YES_NO,
    "at": TIME,
    "comment": TEXT,
    "scope": one_of(SCOPES),
    "reach": one_of(REACHES),
}

_APPROVAL: dict[str, Schema] = {
    "id": TEXT,
    "kind": TEXT,
    "state": one_of(one.value for one in State),
    "call_id": TEXT,
    "preview": record(_PREVIEW, optional=("params",), says="What would be done."),
    "effects": TEXTS,
    "requester": TEXT,
    "for_person": maybe(TEXT),
    "editors": TEXTS,
    "approvers": TEXTS,
    "quorum": COUNT,
    "four_eyes": YES_NO,
    "remember": said(TEXT, "How far a yes may be remembered: `never`, `tool` or `plugin`."),
    "reason": TEXT,
    "policies": TEXTS,
    "policy_version": maybe(TEXT),
    "digest": TEXT,
    "binding": TEXT,
    "created_at": TIME,
    "expires_at": TIME,
    "ended_at": maybe(TIME),
    "ended_why": TEXT,
    "replaces": maybe(TEXT),
    "answers": listed(record(_ANSWER)),
}

_STANDING: dict[str, Schema] = {
    "id": TEXT,
    "holder": TEXT,
    "plugin": TEXT,
    "callable": maybe(TEXT),
    "reach": one_of(REACHES),
    "scope": one_of(("always", "session")),
    "session": maybe(TEXT),
    "digest": TEXT,
    "policies": TEXTS,
    "given_by": TEXT,
    "operator": maybe(TEXT),
    "given_at": TIME,
    "approval": maybe(TEXT),
    "revoked_at": maybe(TIME),
    "revoked_by": maybe(TEXT),
}

_COMMENT = said(TEXT, "Kept with the answer.")
APPROVE = body(
    {"comment": _COMMENT, "scope": one_of(SCOPES), "reach": one_of(REACHES), "params": OBJECT},
    example={"comment": "go on", "scope": "once"},
)
DENY = body({"comment": _COMMENT}, example={"comment": "not today"})
NOTHING = body({}, example={})

SCHEMAS: dict[str, Schema] = {
    "Approvals": record({"approvals": listed(record(_APPROVAL)), "next": maybe(TEXT)}),
    "Approval": record(
        {**_APPROVAL, "replaced_by": maybe(TEXT), "standing": maybe(TEXT)}, says="A request for a person's yes."
    ),
    "Standing": record(_STANDING, says="A yes that lasts."),
    "StandingApprovals": record({"standing": listed(record(_STANDING))}),
}
