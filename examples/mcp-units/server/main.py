"""An MCP server on stdin and stdout with one tool. Standard library only, so the bundle carries nothing else."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from units import MORE, UNITS, NotConvertible, converted

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
METHOD_NOT_FOUND, INVALID_PARAMS = -32601, -32602
OFFERED = sorted(UNITS if os.environ.get("UNITS_MORE") == "true" else UNITS.keys() - MORE)
CONVERT: dict[str, Any] = {
    "name": "convert",
    "title": "Convert",
    "description": "Convert a number from one unit to another.",
    "inputSchema": {
        "type": "object",
        "required": ["value", "from", "to"],
        "additionalProperties": False,
        "properties": {
            "value": {"type": "number"},
            "from": {"type": "string", "enum": OFFERED},
            "to": {"type": "string", "enum": OFFERED},
        },
    },
    "outputSchema": {"type": "object", "required": ["value"], "properties": {"value": {"type": "number"}}},
    "annotations": {"readOnlyHint": True, "openWorldHint": False},
}


class Refused(Exception):
    """An error answer."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.error = {"code": code, "message": message}


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "mcp-units", "title": "Units", "version": "1.0.0"},
    }


def call_tool(params: dict[str, Any]) -> dict[str, Any]:
    if params.get("name") != "convert":
        raise Refused(INVALID_PARAMS, "there is no such tool")
    given: dict[str, Any] = params.get("arguments") or {}
    try:
        value = converted(float(given["value"]), str(given["from"]), str(given["to"]))
    except (KeyError, TypeError, ValueError) as wrong:
        raise Refused(INVALID_PARAMS, f"convert takes value, from and to: {wrong!r}") from None
    except NotConvertible as refused:
        return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
    text = f"{given['value']:g} {given['from']} = {value:g} {given['to']}"
    return {"content": [{"type": "text", "text": text}], "structuredContent": {"value": value}, "isError": False}


METHODS = {
    "initialize": initialize,
    "ping": lambda _params: {},
    "tools/list": lambda _params: {"tools": [CONVERT]},
    "tools/call": call_tool,
}


def answer(request: dict[str, Any]) -> dict[str, Any]:
    head = {"jsonrpc": "2.0", "id": request["id"]}
    method = METHODS.get(request["method"])
    if method is None:
        return head | {"error": {"code": METHOD_NOT_FOUND, "message": f"there is no method {request['method']!r}"}}
    try:
        return head | {"result": method(request.get("params") or {})}
    except Refused as refused:
        return head | {"error": refused.error}


def main() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "id" in request and "method" in request:  # the rest is told, and asks for nothing
            print(json.dumps(answer(request)), flush=True)


if __name__ == "__main__":
    main()
