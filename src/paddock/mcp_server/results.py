"""What came of a call, as an MCP client gets it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock import __version__
from paddock.core.error_mapping import mcp_error, mcp_tool_result
from paddock.core.errors import NeedsApproval, PaddockError
from paddock.gate.catalogue.catalogue import CallTarget
from paddock.mcp_server.revisions import ProtocolRevision
from paddock.plugins.dialects.envelope import is_mcp_server, result_field, unwrap_field
from paddock.rpc.errors import RpcError, error_member
from paddock.rpc.message import MessageId

SERVER_INFO: Final[Mapping[str, Any]] = {"name": "paddock", "title": "Paddock", "version": __version__}
SERVER_INFO_META_KEY: Final = "io.modelcontextprotocol/serverInfo"
ERROR_META_KEY: Final = "dev.paddock/error"
APPROVAL_META_KEY: Final = "dev.paddock/approval"
STRUCTURED_CONTENT: Final = "structuredContent"

_COMMON_CONTENT_TYPES: Final = frozenset({"text", "image", "resource"})  # which every revision knows


def target_result_field(target: CallTarget) -> str | None:
    """Where the value is in what a callable gives."""
    return result_field(target.manifest)


def is_object_schema(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def tool_result(target: CallTarget, result: Any, revision: ProtocolRevision) -> dict[str, Any]:
    """The result of `tools/call`."""
    told = dict(cast("dict[str, Any]", result)) if is_mcp_server(target.manifest) else _wrap_value(target, result)
    if not revision.structured_content:
        told.pop(STRUCTURED_CONTENT, None)
        told["content"] = [_downgrade_block(block, revision) for block in told["content"]]
    elif not revision.non_object_output and not isinstance(told.get(STRUCTURED_CONTENT, {}), dict):
        del told[STRUCTURED_CONTENT]
    return complete_result(told, revision)


def _wrap_value(target: CallTarget, result: Any) -> dict[str, Any]:
    """A value of a plugin that is no MCP server, as text and as data."""
    text = result if isinstance(result, str) else orjson.dumps(result, default=str).decode()
    told: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    value = unwrap_field(target_result_field(target), result)
    schema: Any = target.schemas.output
    wrapped = isinstance(schema, dict) and schema != {} and not is_object_schema(cast("dict[str, Any]", schema))
    if isinstance(value, dict) and not wrapped:
        told[STRUCTURED_CONTENT] = value
    elif wrapped:
        told[STRUCTURED_CONTENT] = {"result": value}
    return told


def _downgrade_block(block: Any, revision: ProtocolRevision) -> Any:
    """A piece of content for a client that does not know its kind."""
    fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    kind = fields.get("type")
    if kind in _COMMON_CONTENT_TYPES or (kind == "audio" and revision.audio):
        return fields
    words = f"{fields.get('name') or ''} {fields.get('uri')}".strip() if kind == "resource_link" else f"[{kind}]"
    return {"type": "text", "text": words}


def complete_result(result: dict[str, Any], revision: ProtocolRevision) -> dict[str, Any]:
    """Any result with what its revision wants in each."""
    if revision.stateless:
        result["resultType"] = "complete"
        result["_meta"] = {**result.get("_meta", {}), SERVER_INFO_META_KEY: SERVER_INFO}
    return result


def tool_failure(error: PaddockError, revision: ProtocolRevision) -> dict[str, Any]:
    """A call that failed, in the form that lets a model read why. The tool's own words where it has some."""
    told = mcp_tool_result(error)
    # Not as structured content: clients check that against the tool's output schema, which speaks of its results.
    told["_meta"] = {ERROR_META_KEY: told.pop(STRUCTURED_CONTENT)}
    own = error.details.get("content") if error.error_code == "tool.failed" else None
    if isinstance(own, list) and own:
        told["_meta"][ERROR_META_KEY]["details"].pop("content", None)
        hint = [{"type": "text", "text": error.hint}] if error.hint else []
        told["content"] = [*(_downgrade_block(block, revision) for block in cast("list[Any]", own)), *hint]
    return complete_result(told, revision)


def tool_pending(held: NeedsApproval, link: str, revision: ProtocolRevision) -> dict[str, Any]:
    """A call that waits for a person: nothing has happened yet, and how to come back for it.

    An error to clients, since what they asked for was not done; models read the words.
    """
    lines = [
        held.message,
        "Nothing has happened yet. The call is made as soon as a person says yes; it does not have to be made again.",
        f"To answer, at a terminal: {held.hint}",
        f"What would be done, for whoever may answer and is signed in: {link}",
        f"Call id: {held.details['call_id']}. The same call again gives its result once there is one.",
    ]
    told: dict[str, Any] = {
        "isError": True,
        "content": [{"type": "text", "text": "\n".join(lines)}],
        "_meta": {APPROVAL_META_KEY: {**held.details, "link": link}},
    }
    return complete_result(told, revision)


def encode_result(number: MessageId, result: bytes) -> bytes:
    """The answer to a request."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode_id(number), result)


def encode_fault(number: MessageId | None, fault: RpcError) -> bytes:
    """The answer to a request that was not served; without an id where nobody knows which one."""
    told = orjson.dumps(error_member(fault), default=str)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode_id(number), told)


def fault_from_error(error: PaddockError) -> RpcError:
    """What a client is told of an error."""
    told = mcp_error(error)
    return RpcError(told["code"], told["message"], told["data"])


def _encode_id(number: MessageId | None) -> bytes:
    return b"%d" % number if type(number) is int else orjson.dumps(number)
