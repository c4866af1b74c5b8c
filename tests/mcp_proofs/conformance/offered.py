"""What the conformance suite wants a server to offer, as the server lists it."""

from __future__ import annotations

from typing import Any

import mcp_types as types

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"
SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

_NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
_JSON_SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
_SCHEMAS: dict[str, dict[str, Any]] = {
    "json_schema_2020_12_tool": _JSON_SCHEMA,
    "test_elicitation": {"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]},
    "test_sampling": {"type": "object", "properties": {"prompt": {"type": "string"}}, "required": ["prompt"]},
    "test_header": {
        "type": "object",
        "properties": {"region": {"type": "string", "x-mcp-header": "Region"}},
        "required": ["region"],
    },
}
SOMETIMES = "test_sometimes"
"""A tool and a prompt that come and go."""

_TOOLS = (
    "test_simple_text",
    "test_image_content",
    "test_audio_content",
    "test_embedded_resource",
    "test_multiple_content_types",
    "test_tool_with_logging",
    "test_logging_tool",
    "test_error_handling",
    "test_tool_with_progress",
    "test_sampling",
    "test_missing_capability",
    "test_elicitation",
    "test_elicitation_sep1034_defaults",
    "test_elicitation_sep1330_enums",
    "test_streaming_elicitation",
    "test_reconnection",
    "test_header",
    "test_trigger_tool_change",
    "test_trigger_prompt_change",
    "test_input_required_result_elicitation",
    "test_input_required_result_request_state",
    "test_input_required_result_tampered_state",
    "test_input_required_result_multi_round",
    "json_schema_2020_12_tool",
)


def tools() -> list[types.Tool]:
    reads = types.ToolAnnotations(read_only_hint=True)
    return [
        types.Tool(
            name=name,
            description=f"What the suite calls {name}",
            input_schema=_SCHEMAS.get(name, _NOTHING),
            annotations=reads,
        )
        for name in (*_TOOLS, SOMETIMES)
    ]


def prompts() -> list[types.Prompt]:
    arguments = {
        "test_simple_prompt": (),
        "test_prompt_with_arguments": ("arg1", "arg2"),
        "test_prompt_with_embedded_resource": ("resourceUri",),
        "test_prompt_with_image": (),
        "test_input_required_result_prompt": (),
        SOMETIMES: (),
    }
    return [
        types.Prompt(
            name=name,
            description=f"What the suite calls {name}",
            arguments=[types.PromptArgument(name=one, description=one, required=True) for one in wanted],
        )
        for name, wanted in arguments.items()
    ]


def resources() -> list[types.Resource]:
    listed = (
        ("test://static-text", "text/plain"),
        ("test://static-binary", "image/png"),
        ("test://watched-resource", "text/plain"),
    )
    return [
        types.Resource(uri=uri, name=uri.removeprefix("test://"), description=f"At {uri}", mime_type=kind)
        for uri, kind in listed
    ]


def templates() -> list[types.ResourceTemplate]:
    return [
        types.ResourceTemplate(
            uri_template="test://template/{id}/data",
            name="template",
            description="Data of an id",
            mime_type="application/json",
        )
    ]
