"""An MCP server on stdin and stdout, without any package: one JSON-RPC message a line.

With the official package `mcp` this file is shorter. A file that imports it is installed by itself, together with the
package: `paddock plugin install server.py`.
"""

from __future__ import annotations

import json
import sys
from typing import Any

REVISION = "2025-06-18"
GREET = {
    "name": "greet",
    "description": "Greet a person.",
    "inputSchema": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string", "minLength": 1, "description": "Whom to greet"}},
        "examples": [{"name": "Ann"}],
    },
    "annotations": {"readOnlyHint": True},
}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None where there is no such method."""
    match method:
        case "initialize":
            about = {"name": "__NAME__", "version": "0.1.0"}
            return {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": about}
        case "ping":
            return {}
        case "tools/list":
            return {"tools": [GREET]}
        case "tools/call" if params.get("name") == "greet":
            return greet(params.get("arguments", {}))
        case _:
            return None


def greet(arguments: dict[str, Any]) -> dict[str, Any]:
    name = arguments.get("name")
    if not isinstance(name, str) or not name:
        return {"content": [{"type": "text", "text": "name must be text"}], "isError": True}
    return {"content": [{"type": "text", "text": f"Hello, {name}!"}], "isError": False}


def serve() -> None:
    """Answer until the input ends. What is for people goes to stderr."""
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        result = answer(message["method"], message.get("params") or {})
        reply = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
