"""Schemas of calls and actions: request bodies and responses."""

from __future__ import annotations

from typing import get_args

from paddock.gate.calls.handle import CallStatus
from paddock.gate.idempotency.states import MAX_KEY_CHARS
from paddock.web.routing.schema import (
    ANY,
    BOOLEAN,
    DATE_TIME,
    NON_NEGATIVE_INT,
    OBJECT,
    TEXT,
    TEXTS,
    Schema,
    array_of,
    body_schema,
    describe,
    enum_of,
    nullable,
    object_schema,
    ref,
)

_QUESTION = object_schema(
    {
        "type": enum_of(("question",)),
        "id": TEXT,
        "call_id": TEXT,
        "plugin": TEXT,
        "message": TEXT,
        "url": TEXT,
        "schema": OBJECT,
    },
    optional=("url", "schema"),
    description="What a plugin asks during a call: to be filled in as `schema` says, or at the `url`.",
)

_SUMMARY: dict[str, Schema] = {
    "call_id": TEXT,
    "plugin": TEXT,
    "callable": TEXT,
    "status": enum_of(get_args(CallStatus)),
    "started_at": DATE_TIME,
    "ended_at": nullable(DATE_TIME),
    "events": describe(NON_NEGATIVE_INT, "How many were told so far."),
    "questions": array_of(ref("Question")),
}

_PENDING = object_schema(
    {
        "approval": describe(TEXT, "The id of the request."),
        "call_id": TEXT,
        "plugin": TEXT,
        "kind": TEXT,
        "four_eyes": BOOLEAN,
        "remember": TEXT,
        "expires_at": DATE_TIME,
        "preview": OBJECT,
        "token": describe(TEXT, "With which whoever made the call comes back for it, once."),
    },
    optional=("token",),
    description="The request that a call waits for.",
)

_CALL: dict[str, Schema] = {
    **_SUMMARY,
    "result": describe(ANY, "What the plugin gave, of a call that succeeded."),
    "replay_of": describe(TEXT, "The former call under the same key, whose answer this is."),
    "undisclosed": describe(TEXTS, "What it used without saying so."),
    "error": ref("Error"),
    "approval": ref("PendingApproval"),
    "in_progress": nullable(
        object_schema({"until": DATE_TIME, "asked": NON_NEGATIVE_INT, "result": ANY, "next": nullable(DATE_TIME)})
    ),
}

_TOOL_RESULT: dict[str, Schema] = {
    "status": enum_of(("success",)),
    "data": describe(ANY, "What the plugin gave."),
    "cost": ANY,
    "diagnostics": ANY,
    "skips": ANY,
    "citations": ANY,
    "next_cursor": ANY,
    "call_id": describe(TEXT, "The call that gave it: see `/calls/{id}`."),
}

_ACTION = object_schema(
    {
        "name": TEXT,
        "description": TEXT,
        "params_schema": describe({"type": ["object", "boolean", "null"]}, "A JSON Schema."),
        "required_scopes": TEXTS,
        "requires_approval": BOOLEAN,
        "effects": TEXTS,
    },
    description="Shu's ActionMeta, and what the action changes.",
)

_RULE = object_schema(
    {"id": TEXT, "text": TEXT, "effect": TEXT, "origin": TEXT, "line": nullable(NON_NEGATIVE_INT)},
    optional=("effect", "line"),
)
_REMEDIES = array_of(object_schema({"change": TEXT, "outcome": TEXT, "command": TEXT}, optional=("command",)))

_EXPLANATION_FIELDS: dict[str, Schema] = {
    "call_id": TEXT,
    "request_id": nullable(TEXT),
    "plugin": TEXT,
    "callable": TEXT,
    "name": TEXT,
    "version": nullable(TEXT),
    "effects": TEXTS,
    "who": nullable(describe(TEXT, "Null where it was erased.")),
    "operator": nullable(TEXT),
    "at": DATE_TIME,
    "status": TEXT,
    "resolution": nullable(TEXT),
    "decision": {"enum": ["allow", "deny", "ask", None]},
    "proposed": nullable(TEXT),
    "undisclosed": TEXTS,
    "reason": TEXT,
    "rules": array_of(_RULE),
    "policy_version": nullable(TEXT),
    "would_change_it": _REMEDIES,
    "rules_changed": BOOLEAN,
    "today": nullable(
        object_schema(
            {
                "who": TEXT,
                "what": TEXT,
                "decision": TEXT,
                "reason": TEXT,
                "rules": array_of(_RULE),
                "would_change_it": _REMEDIES,
                "policy_version": TEXT,
            }
        )
    ),
    "today_unknown": nullable(TEXT),
    "approval": nullable(TEXT),
    "error": nullable(OBJECT),
    "course": array_of(object_schema({"at": DATE_TIME, "what": TEXT, "entry": TEXT})),
}

_USAGE_FIELDS: dict[str, Schema] = {
    "entry": TEXT,
    "request_id": nullable(TEXT),
    "plugin": TEXT,
    "method": TEXT,
    "capability": nullable(TEXT),
    "at": DATE_TIME,
    "status": TEXT,
    "decision": TEXT,
    "reason": TEXT,
    "rules": array_of(_RULE),
    "policy_version": nullable(TEXT),
    "rules_changed": BOOLEAN,
}

PARAMS_BODY: Schema = {"type": "object", "examples": [{"text": "hello"}]}
_TOKEN = describe(TEXT, "Of the same call, which waited for a person.")
EXECUTE_BODY = body_schema(
    {
        "params": OBJECT,
        "parameters": describe(OBJECT, "As Shu writes `params`."),
        "user_context": describe(OBJECT, "Taken and not used: who calls is known by their credential."),
    },
    example={"params": {"query": "status of the project"}},
)
MAKE_CALL_BODY = body_schema(
    {
        "name": describe(TEXT, "The full name, as in `memory-markdown.recall`."),
        "params": OBJECT,
        "approval_token": _TOKEN,
        "idempotency_key": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS},
    },
    required=("name",),
    example={"name": "memory-markdown.recall", "params": {"query": "keys"}},
)
PERFORM_BODY = body_schema({"args": OBJECT, "approval_token": _TOKEN}, example={"args": {"text": "Buy milk"}})
ANSWER_BODY = body_schema(
    {"action": enum_of(("accept", "decline", "cancel")), "content": OBJECT},
    required=("action",),
    example={"action": "accept", "content": {"colour": "green"}},
)

SCHEMAS: dict[str, Schema] = {
    "Question": _QUESTION,
    "PendingApproval": _PENDING,
    "Call": object_schema(
        _CALL,
        optional=("result", "replay_of", "undisclosed", "error", "approval", "in_progress"),
        description="One call.",
    ),
    "Calls": object_schema({"calls": array_of(object_schema(_SUMMARY))}),
    "Detached": object_schema(
        {"call_id": TEXT, "status": enum_of(get_args(CallStatus))}, description="A call that goes on."
    ),
    "ToolResult": object_schema(
        _TOOL_RESULT,
        optional=("cost", "diagnostics", "skips", "citations", "next_cursor"),
        description="Shu's ToolResult, with the call that gave it.",
    ),
    "Explanation": object_schema(
        {
            "id": TEXT,
            "calls": array_of(object_schema(_EXPLANATION_FIELDS)),
            "uses": array_of(object_schema(_USAGE_FIELDS)),
        }
    ),
    "Offered": _ACTION,
    "Actions": object_schema({"name": TEXT, "actions": array_of(ref("Offered"))}),
    "ActionDone": object_schema(
        {"status": enum_of(("ok",)), "action_id": TEXT, "result": ANY, "diagnostics": ANY}, optional=("diagnostics",)
    ),
    "ActionPending": object_schema(
        {
            "status": enum_of(("pending_approval",)),
            "action_id": TEXT,
            "preview": OBJECT,
            "approval": TEXT,
            "expires_at": DATE_TIME,
            "approval_token": TEXT,
        },
        optional=("approval_token",),
    ),
    "ActionFailed": object_schema({"status": enum_of(("error",)), "action_id": TEXT, "error": ref("Error")}),
}
