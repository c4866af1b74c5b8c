"""Schemas of plugins: installation, runtime state, tools, definitions, resources and prompts."""

from __future__ import annotations

from paddock.manifest.definition_flags import DefinitionFlag
from paddock.plugins.store.listing import InstalledState
from paddock.web.routing.schema import (
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

_STATE = enum_of(("disabled", "spawning", "running", "crashed", "failed", "stopped"))
_INSTALLATION = enum_of(one.value for one in InstalledState)
_DIGEST = describe(TEXT, "As `sha256:…`.")

_RUNTIME: dict[str, Schema] = {
    "state": _STATE,
    "on_demand": describe(BOOLEAN, "Whether its next call starts it."),
    "pid": nullable(NON_NEGATIVE_INT),
    "cage_id": nullable(TEXT),
    "reason": describe(TEXT, "Why it does not run; empty where it does."),
    "hint": TEXT,
    "error_code": TEXT,
    "failures": NON_NEGATIVE_INT,
    "restarts": NON_NEGATIVE_INT,
    "last_failure": nullable(object_schema({"reason": TEXT, "hint": TEXT, "error_code": TEXT, "at": DATE_TIME})),
    "running_since": nullable(DATE_TIME),
    "restarts_in": nullable({"type": "number", "description": "Seconds."}),
    "in_flight": NON_NEGATIVE_INT,
    "calls": NON_NEGATIVE_INT,
    "unavailable_methods": TEXTS,
    "features": TEXTS,
    "unused_config": TEXT,
}

_LISTED_FIELDS: dict[str, Schema] = {
    "name": TEXT,
    "version": TEXT,
    "state": _INSTALLATION,
    "given_up": describe(TEXT, "Why the daemon disabled it; empty where it did not."),
    "kind": TEXT,
    "description": TEXT,
    "waiting": describe(NON_NEGATIVE_INT, "Definitions that wait for a person."),
    "runtime": nullable(ref("Runtime")),
}

_HINTS = array_of(ref("Hint"))

_HINT: dict[str, Schema] = {
    "kind": describe(TEXT, "What of: `tool`, `prompt`, …, or `plugin`."),
    "name": TEXT,
    "flag": enum_of(map(str, DefinitionFlag)),
    "where": describe(TEXT, "In the definition."),
    "words": describe(TEXT, "What stands there, with everything hidden written out."),
    "why": TEXT,
}

_TOOL: dict[str, Schema] = {
    "name": TEXT,
    "call": describe(TEXT, "The name to call it by."),
    "title": TEXT,
    "description": TEXT,
    "standing": TEXT,
    "reason": TEXT,
    "accepted_by": TEXT,
    "effects": TEXTS,
    "recovery": TEXT,
    "probe": TEXT,
    "requires_approval": BOOLEAN,
    "required_scopes": TEXTS,
    "parameters": array_of(object_schema({"name": TEXT, "type": TEXT, "required": BOOLEAN, "description": TEXT})),
    "input_schema": describe({"type": ["object", "boolean", "null"]}, "A JSON Schema."),
    "output_schema": describe({"type": ["object", "boolean", "null"]}, "A JSON Schema."),
    "hints": _HINTS,
}

_DEFINITION: dict[str, Schema] = {
    "kind": TEXT,
    "name": TEXT,
    "standing": TEXT,
    "reason": TEXT,
    "repair": TEXT,
    "hash": nullable(_DIGEST),
    "waiting_hash": nullable(describe(TEXT, "Of what the server says now and nobody accepted.")),
    "first_seen": DATE_TIME,
    "last_seen": DATE_TIME,
    "accepted_by": TEXT,
    "accepted_at": nullable(DATE_TIME),
}

_PLUGIN: dict[str, Schema] = {
    "name": TEXT,
    "title": TEXT,
    "version": TEXT,
    "state": _INSTALLATION,
    "enabled": BOOLEAN,
    "given_up": TEXT,
    "repair": TEXT,
    "pinned": nullable(TEXT),
    "description": TEXT,
    "author": TEXT,
    "license": TEXT,
    "homepage": TEXT,
    "kind": TEXT,
    "dialect": TEXT,
    "tier": TEXT,
    "trust_claim": nullable(TEXT),
    "signature": TEXT,
    "source": TEXT,
    "digest": _DIGEST,
    "installed_at": DATE_TIME,
    "versions": TEXTS,
    "aliases": TEXTS,
    "capabilities": TEXTS,
    "callables": TEXTS,
    "waiting": NON_NEGATIVE_INT,
    "difference": object_schema({"changed": TEXTS, "missing": TEXTS, "added": TEXTS}),
    "sections": array_of(object_schema({"title": TEXT, "lines": TEXTS})),
    "obstacles": array_of(ref("Mistake")),
    "warnings": array_of(ref("Mistake")),
    "tools": array_of(ref("Tool")),
    "hints": _HINTS,
    "definitions": array_of(ref("Definition")),
    "instructions": TEXT,
    "runtime": nullable(ref("Runtime")),
}

_WITHHELD = array_of(OBJECT)
_KNOWN = describe(BOOLEAN, "False for a server that never ran.")

ENABLE_BODY = body_schema(
    {"grant": describe({"type": "array", "items": TEXT, "maxItems": 200}, "Capabilities, each as a text.")},
    example={"grant": ["net:api.example.com:443"]},
)
ACCEPT_BODY = body_schema(
    {"kind": TEXT, "name": TEXT, "hash": TEXT},
    required=("kind", "name", "hash"),
    example={"kind": "tool", "name": "search", "hash": "sha256:1f2e…"},
)
PROMPT_BODY = body_schema({"arguments": OBJECT}, example={"arguments": {"who": "Ann"}})

SCHEMAS: dict[str, Schema] = {
    "Runtime": object_schema(_RUNTIME, description="How the process of a plugin is doing."),
    "Plugins": object_schema(
        {"plugins": array_of(object_schema(_LISTED_FIELDS, optional=("given_up", "waiting", "runtime")))}
    ),
    "OfferedPlugin": object_schema(
        {name: _LISTED_FIELDS[name] for name in ("name", "version", "state", "kind", "description")}
        | {"callables": array_of(ref("PermittedTarget"))},
        description="What whoever is no operator may know of a plugin.",
    ),
    "Plugin": object_schema(_PLUGIN),
    "Started": object_schema(
        {"name": TEXT, "version": TEXT, **_RUNTIME}, description="How a plugin is doing that was enabled."
    ),
    "Disabled": object_schema({"name": TEXT, "version": TEXT, "state": enum_of(("disabled",))}),
    "LogLines": object_schema({"name": TEXT, "lines": array_of(object_schema({"at": DATE_TIME, "line": TEXT}))}),
    "Tool": object_schema(_TOOL),
    "Hint": object_schema(
        _HINT, description="Something odd about the words of a plugin: for a person to judge, and no verdict."
    ),
    "Tools": object_schema({"name": TEXT, "known": _KNOWN, "tools": array_of(ref("Tool")), "hints": _HINTS}),
    "Definition": object_schema(_DEFINITION, description="What a server says of one thing that it offers."),
    "AcceptedDefinition": object_schema({"plugin": TEXT, **_DEFINITION}),
    "WaitingDefinitions": object_schema({"waiting": array_of(ref("AcceptedDefinition"))}),
    "Definitions": object_schema(
        {
            "name": TEXT,
            "definitions": array_of(object_schema({**_DEFINITION, "difference": TEXTS, "hints": _HINTS})),
            "tools": array_of(ref("Tool")),
        }
    ),
    "Resources": object_schema(
        {
            "name": TEXT,
            "known": _KNOWN,
            "resources": array_of(OBJECT),
            "templates": array_of(OBJECT),
            "withheld": _WITHHELD,
        },
        description="As the server describes them.",
    ),
    "ResourceContents": object_schema({"contents": array_of(OBJECT)}, description="As the server gives them."),
    "Prompts": object_schema({"name": TEXT, "known": _KNOWN, "prompts": array_of(OBJECT), "withheld": _WITHHELD}),
    "FilledPrompt": object_schema({"messages": array_of(OBJECT)}, description="As the server gives it."),
}
