"""Calls and actions: what they are made with, and what becomes of them."""

from __future__ import annotations

from typing import get_args

from paddock.gate.effects.keys import LONGEST as LONGEST_KEY
from paddock.gate.live_call import CallStatus
from paddock.http.schemas.building import (
    ANY,
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
    ref,
    said,
)

_QUESTION = record(
    {
        "type": one_of(("question",)),
        "id": TEXT,
        "call_id": TEXT,
        "plugin": TEXT,
        "message": TEXT,
        "url": TEXT,
        "schema": OBJECT,
    },
    optional=("url", "schema"),
    says="What a plugin asks during a call: to be filled in as `schema` says, or at the `url`.",
)

_SUMMARY: dict[str, Schema] = {
    "call_id": TEXT,
    "plugin": TEXT,
    "callable": TEXT,
    "status": one_of(get_args(CallStatus)),
    "started_at": TIME,
    "ended_at": maybe(TIME),
    "events": said(COUNT, "How many were told so far."),
    "questions": listed(ref("Question")),
}

_PENDING = record(
    {
        "approval": said(TEXT, "The id of the request."),
        "call_id": TEXT,
        "plugin": TEXT,
        "kind": TEXT,
        "four_eyes": YES_NO,
        "remember": TEXT,
        "expires_at": TIME,
        "preview": OBJECT,
        "token": said(TEXT, "With which whoever made the call comes back for it, once."),
    },
    optional=("token",),
    says="The request that a call waits for.",
)

_CALL: dict[str, Schema] = {
    **_SUMMARY,
    "result": said(ANY, "What the plugin gave, of a call that succeeded."),
    "replay_of": said(TEXT, "The former call under the same key, whose answer this is."),
    "undisclosed": said(TEXTS, "What it used without saying so."),
    "error": ref("Error"),
    "approval": ref("PendingApproval"),
    "in_progress": maybe(record({"until": TIME, "asked": COUNT, "result": ANY, "next": maybe(TIME)})),
}

_TOOL_RESULT: dict[str, Schema] = {
    "status": one_of(("success",)),
    "data": said(ANY, "What the plugin gave."),
    "cost": ANY,
    "diagnostics": ANY,
    "skips": ANY,
    "citations": ANY,
    "next_cursor": ANY,
    "call_id": said(TEXT, "The call that gave it: see `/calls/{id}`."),
}

_ACTION = record(
    {
        "name": TEXT,
        "description": TEXT,
        "params_schema": said({"type": ["object", "boolean", "null"]}, "A JSON Schema."),
        "required_scopes": TEXTS,
        "requires_approval": YES_NO,
        "effects": TEXTS,
    },
    says="Shu's ActionMeta, and what the action changes.",
)

_RULE = record(
    {"id": TEXT, "text": TEXT, "effect": TEXT, "origin": TEXT, "line": maybe(COUNT)}, optional=("effect", "line")
)
_WAYS = listed(record({"change": TEXT, "outcome": TEXT, "command": TEXT}, optional=("command",)))

_EXPLAINED: dict[str, Schema] = {
    "call_id": TEXT,
    "request_id": maybe(TEXT),
    "plugin": TEXT,
    "callable": TEXT,
    "name": TEXT,
    "version": maybe(TEXT),
    "effects": TEXTS,
    "who": maybe(said(TEXT, "Null where it was erased.")),
    "operator": maybe(TEXT),
    "at": TIME,
    "status": TEXT,
    "resolution": maybe(TEXT),
    "decision": {"enum": ["allow", "deny", "ask", None]},
    "proposed": maybe(TEXT),
    "undisclosed": TEXTS,
    "reason": TEXT,
    "rules": listed(_RULE),
    "policy_version": maybe(TEXT),
    "would_change_it": _WAYS,
    "rules_changed": YES_NO,
    "today": maybe(
        record(
            {
                "who": TEXT,
                "what": TEXT,
                "decision": TEXT,
                "reason": TEXT,
                "rules": listed(_RULE),
                "would_change_it": _WAYS,
                "policy_version": TEXT,
            }
        )
    ),
    "today_unknown": maybe(TEXT),
    "approval": maybe(TEXT),
    "error": maybe(OBJECT),
    "course": listed(record({"at": TIME, "what": TEXT, "entry": TEXT})),
}

_USE: dict[str, Schema] = {
    "entry": TEXT,
    "request_id": maybe(TEXT),
    "plugin": TEXT,
    "method": TEXT,
    "capability": maybe(TEXT),
    "at": TIME,
    "status": TEXT,
    "decision": TEXT,
    "reason": TEXT,
    "rules": listed(_RULE),
    "policy_version": maybe(TEXT),
    "rules_changed": YES_NO,
}

PARAMS: Schema = {"type": "object", "examples": [{"text": "hello"}]}
_TOKEN = said(TEXT, "Of the same call, which waited for a person.")
EXECUTE = body(
    {
        "params": OBJECT,
        "parameters": said(OBJECT, "As Shu writes `params`."),
        "user_context": said(OBJECT, "Taken and not used: who calls is known by their credential."),
    },
    example={"params": {"query": "status of the project"}},
)
MAKE_CALL = body(
    {
        "name": said(TEXT, "The full name, as in `memory-markdown.recall`."),
        "params": OBJECT,
        "approval_token": _TOKEN,
        "idempotency_key": {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY},
    },
    required=("name",),
    example={"name": "memory-markdown.recall", "params": {"query": "keys"}},
)
PERFORM = body({"args": OBJECT, "approval_token": _TOKEN}, example={"args": {"text": "Buy milk"}})
ANSWER = body(
    {"action": one_of(("accept", "decline", "cancel")), "content": OBJECT},
    required=("action",),
    example={"action": "accept", "content": {"colour": "green"}},
)

SCHEMAS: dict[str, Schema] = {
    "Question": _QUESTION,
    "PendingApproval": _PENDING,
    "Call": record(
        _CALL, optional=("result", "replay_of", "undisclosed", "error", "approval", "in_progress"), says="One call."
    ),
    "Calls": record({"calls": listed(record(_SUMMARY))}),
    "Detached": record({"call_id": TEXT, "status": one_of(get_args(CallStatus))}, says="A call that goes on."),
    "ToolResult": record(
        _TOOL_RESULT,
        optional=("cost", "diagnostics", "skips", "citations", "next_cursor"),
        says="Shu's ToolResult, with the call that gave it.",
    ),
    "Explanation": record({"id": TEXT, "calls": listed(record(_EXPLAINED)), "uses": listed(record(_USE))}),
    "Offered": _ACTION,
    "Actions": record({"name": TEXT, "actions": listed(ref("Offered"))}),
    "ActionDone": record(
        {"status": one_of(("ok",)), "action_id": TEXT, "result": ANY, "diagnostics": ANY}, optional=("diagnostics",)
    ),
    "ActionPending": record(
        {
            "status": one_of(("pending_approval",)),
            "action_id": TEXT,
            "preview": OBJECT,
            "approval": TEXT,
            "expires_at": TIME,
            "approval_token": TEXT,
        },
        optional=("approval_token",),
    ),
    "ActionFailed": record({"status": one_of(("error",)), "action_id": TEXT, "error": ref("Error")}),
}
