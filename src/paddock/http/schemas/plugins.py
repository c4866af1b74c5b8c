"""Plugins: what is installed, how it is doing, what it offers."""

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
    ref,
    said,
)
from paddock.manifest.flags import Flag
from paddock.plugins.listing import State as Installation

_STATE = one_of(("disabled", "spawning", "running", "crashed", "failed", "stopped"))
_INSTALLATION = one_of(one.value for one in Installation)
_DIGEST = said(TEXT, "As `sha256:…`.")

_RUNTIME: dict[str, Schema] = {
    "state": _STATE,
    "on_demand": said(YES_NO, "Whether its next call starts it."),
    "pid": maybe(COUNT),
    "cage_id": maybe(TEXT),
    "reason": said(TEXT, "Why it does not run; empty where it does."),
    "hint": TEXT,
    "error_code": TEXT,
    "failures": COUNT,
    "restarts": COUNT,
    "last_failure": maybe(record({"reason": TEXT, "hint": TEXT, "error_code": TEXT, "at": TIME})),
    "running_since": maybe(TIME),
    "restarts_in": maybe({"type": "number", "description": "Seconds."}),
    "in_flight": COUNT,
    "calls": COUNT,
    "unavailable_methods": TEXTS,
    "features": TEXTS,
    "unused_config": TEXT,
}

_LISTED: dict[str, Schema] = {
    "name": TEXT,
    "version": TEXT,
    "state": _INSTALLATION,
    "given_up": said(TEXT, "Why the daemon disabled it; empty where it did not."),
    "kind": TEXT,
    "description": TEXT,
    "waiting": said(COUNT, "Definitions that wait for a person."),
    "runtime": maybe(ref("Runtime")),
}

_HINTS = listed(ref("Hint"))

_HINT: dict[str, Schema] = {
    "kind": said(TEXT, "What of: `tool`, `prompt`, …, or `plugin`."),
    "name": TEXT,
    "flag": one_of(map(str, Flag)),
    "where": said(TEXT, "In the definition."),
    "words": said(TEXT, "What stands there, with everything hidden written out."),
    "why": TEXT,
}

_TOOL: dict[str, Schema] = {
    "name": TEXT,
    "call": said(TEXT, "The name to call it by."),
    "title": TEXT,
    "description": TEXT,
    "standing": TEXT,
    "reason": TEXT,
    "accepted_by": TEXT,
    "effects": TEXTS,
    "recovery": TEXT,
    "probe": TEXT,
    "requires_approval": YES_NO,
    "required_scopes": TEXTS,
    "parameters": listed(record({"name": TEXT, "type": TEXT, "required": YES_NO, "description": TEXT})),
    "input_schema": said({"type": ["object", "boolean", "null"]}, "A JSON Schema."),
    "output_schema": said({"type": ["object", "boolean", "null"]}, "A JSON Schema."),
    "hints": _HINTS,
}

_DEFINITION: dict[str, Schema] = {
    "kind": TEXT,
    "name": TEXT,
    "standing": TEXT,
    "reason": TEXT,
    "repair": TEXT,
    "hash": maybe(_DIGEST),
    "waiting_hash": maybe(said(TEXT, "Of what the server says now and nobody accepted.")),
    "first_seen": TIME,
    "last_seen": TIME,
    "accepted_by": TEXT,
    "accepted_at": maybe(TIME),
}

_PLUGIN: dict[str, Schema] = {
    "name": TEXT,
    "title": TEXT,
    "version": TEXT,
    "state": _INSTALLATION,
    "enabled": YES_NO,
    "given_up": TEXT,
    "repair": TEXT,
    "pinned": maybe(TEXT),
    "description": TEXT,
    "author": TEXT,
    "license": TEXT,
    "homepage": TEXT,
    "kind": TEXT,
    "dialect": TEXT,
    "tier": TEXT,
    "trust_claim": maybe(TEXT),
    "signature": TEXT,
    "source": TEXT,
    "digest": _DIGEST,
    "installed_at": TIME,
    "versions": TEXTS,
    "aliases": TEXTS,
    "capabilities": TEXTS,
    "callables": TEXTS,
    "waiting": COUNT,
    "difference": record({"changed": TEXTS, "missing": TEXTS, "added": TEXTS}),
    "sections": listed(record({"title": TEXT, "lines": TEXTS})),
    "obstacles": listed(ref("Mistake")),
    "warnings": listed(ref("Mistake")),
    "tools": listed(ref("Tool")),
    "hints": _HINTS,
    "definitions": listed(ref("Definition")),
    "instructions": TEXT,
    "runtime": maybe(ref("Runtime")),
}

_WITHHELD = listed(OBJECT)
_KNOWN = said(YES_NO, "False for a server that never ran.")

ENABLE = body(
    {"grant": said({"type": "array", "items": TEXT, "maxItems": 200}, "Capabilities, each as a text.")},
    example={"grant": ["net:api.example.com:443"]},
)
ACCEPT = body(
    {"kind": TEXT, "name": TEXT, "hash": TEXT},
    required=("kind", "name", "hash"),
    example={"kind": "tool", "name": "search", "hash": "sha256:1f2e…"},
)
PROMPT = body({"arguments": OBJECT}, example={"arguments": {"who": "Ann"}})

SCHEMAS: dict[str, Schema] = {
    "Runtime": record(_RUNTIME, says="How the process of a plugin is doing."),
    "Plugins": record({"plugins": listed(record(_LISTED, optional=("given_up", "waiting", "runtime")))}),
    "OfferedPlugin": record(
        {name: _LISTED[name] for name in ("name", "version", "state", "kind", "description")}
        | {"callables": listed(ref("Offered"))},
        says="What whoever is no operator may know of a plugin.",
    ),
    "Plugin": record(_PLUGIN),
    "Started": record({"name": TEXT, "version": TEXT, **_RUNTIME}, says="How a plugin is doing that was enabled."),
    "Disabled": record({"name": TEXT, "version": TEXT, "state": one_of(("disabled",))}),
    "LogLines": record({"name": TEXT, "lines": listed(record({"at": TIME, "line": TEXT}))}),
    "Tool": record(_TOOL),
    "Hint": record(_HINT, says="Something odd about the words of a plugin: for a person to judge, and no verdict."),
    "Tools": record({"name": TEXT, "known": _KNOWN, "tools": listed(ref("Tool")), "hints": _HINTS}),
    "Definition": record(_DEFINITION, says="What a server says of one thing that it offers."),
    "AcceptedDefinition": record({"plugin": TEXT, **_DEFINITION}),
    "Definitions": record(
        {
            "name": TEXT,
            "definitions": listed(record({**_DEFINITION, "difference": TEXTS, "hints": _HINTS})),
            "tools": listed(ref("Tool")),
        }
    ),
    "Resources": record(
        {
            "name": TEXT,
            "known": _KNOWN,
            "resources": listed(OBJECT),
            "templates": listed(OBJECT),
            "withheld": _WITHHELD,
        },
        says="As the server describes them.",
    ),
    "ResourceContents": record({"contents": listed(OBJECT)}, says="As the server gives them."),
    "Prompts": record({"name": TEXT, "known": _KNOWN, "prompts": listed(OBJECT), "withheld": _WITHHELD}),
    "FilledPrompt": record({"messages": listed(OBJECT)}, says="As the server gives it."),
}
