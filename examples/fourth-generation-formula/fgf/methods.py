"""What an MCP client can ask this server, method by method.

No method needs the handshake to have happened: the server keeps no session, so a client that speaks a stateless
version of the protocol is served as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from fgf.prompts import PROMPTS, render
from fgf.resources import RESOURCES, read
from fgf.rpc import INVALID_PARAMS, Method, RpcError
from fgf.tools import TOOLS, Refused

SERVER = {"name": "fourth-generation-formula", "title": "Fourth Generation Formula", "version": "1.0.0"}
VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


def initialize(params: dict[str, Any]) -> dict[str, Any]:
    asked = params.get("protocolVersion")
    return {
        "protocolVersion": asked if asked in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
        "serverInfo": SERVER,
        "instructions": "Assess first, then write the creed, then the book: one question at a time.",
    }


def ping(_params: dict[str, Any]) -> dict[str, Any]:
    return {}


def list_tools(_params: dict[str, Any]) -> dict[str, Any]:
    return {"tools": [tool.definition for tool in TOOLS.values()]}


def call_tool(params: dict[str, Any]) -> dict[str, Any]:
    """A tool that cannot do what it was asked answers so in words, for the model to read; see `isError`."""
    tool = TOOLS.get(_text(params, "name"))
    if tool is None:
        raise RpcError(INVALID_PARAMS, f"there is no tool {params['name'][:128]!r}")
    try:
        answer = tool.run(_object(params, "arguments"), _object(params, "_meta"))
    except Refused as refused:
        return {"content": [{"type": "text", "text": str(refused)}], "isError": True}
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": answer.text}],
        "structuredContent": answer.data,
        "isError": False,
    }
    return {**result, "_meta": answer.meta} if answer.meta else result


def list_resources(_params: dict[str, Any]) -> dict[str, Any]:
    return {"resources": RESOURCES}


def read_resource(params: dict[str, Any]) -> dict[str, Any]:
    return {"contents": [read(_text(params, "uri"))]}


def list_prompts(_params: dict[str, Any]) -> dict[str, Any]:
    return {"prompts": PROMPTS}


def get_prompt(params: dict[str, Any]) -> dict[str, Any]:
    return render(_text(params, "name"), params.get("arguments", {}))


def _text(params: dict[str, Any], key: str) -> str:
    value = params.get(key)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{key} must be text")
    return value


def _object(params: dict[str, Any], key: str) -> dict[str, Any]:
    value = params.get(key, {})
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"{key} must be an object")
    return cast("dict[str, Any]", value)


METHODS: Mapping[str, Method] = {
    "initialize": initialize,
    "ping": ping,
    "tools/list": list_tools,
    "tools/call": call_tool,
    "resources/list": list_resources,
    "resources/read": read_resource,
    "prompts/list": list_prompts,
    "prompts/get": get_prompt,
}
