"""MCP results and errors, built from call results and Paddock errors. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import orjson

from paddock import __version__
from paddock.core.action import with_sentence
from paddock.core.error_formats import mcp_error, mcp_tool_result
from paddock.core.errors import NeedsApproval, PaddockError
from paddock.gate.catalogue.call_target import CallTarget
from paddock.mcp_server.revisions import ProtocolRevision
from paddock.plugins.dialects.envelope import is_mcp_server, result_field, unwrap_field
from paddock.rpc.errors import RpcError, error_member
from paddock.rpc.message import MessageId

SERVER_INFO: Final[Mapping[str, Any]] = {"name": "paddock", "title": "Paddock", "version": __version__}
SERVER_INFO_META_KEY: Final = "io.modelcontextprotocol/serverInfo"
ERROR_META_KEY: Final = "dev.paddock/error"
APPROVAL_META_KEY: Final = "dev.paddock/approval"
STRUCTURED_CONTENT: Final = "structuredContent"

_COMMON_CONTENT_TYPES: Final = frozenset({"text", "image", "resource"})  # known by every revision


def target_result_field(target: CallTarget) -> str | None:
    """Return the field of a callable's result that holds the value."""
    return result_field(target.manifest)


def is_object_schema(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "object"


def tool_result(target: CallTarget, result: Any, revision: ProtocolRevision) -> dict[str, Any]:
    """Build the result of `tools/call`."""
    tool_output = (
        dict(cast("dict[str, Any]", result)) if is_mcp_server(target.manifest) else _wrap_value(target, result)
    )
    if not revision.structured_content:
        tool_output.pop(STRUCTURED_CONTENT, None)
        tool_output["content"] = [_downgrade_block(block, revision) for block in tool_output["content"]]
    elif not revision.non_object_output and not isinstance(tool_output.get(STRUCTURED_CONTENT, {}), dict):
        del tool_output[STRUCTURED_CONTENT]
    return complete_result(tool_output, revision)


def _wrap_value(target: CallTarget, result: Any) -> dict[str, Any]:
    """Wrap the value of a plugin that is not an MCP server, as text and as structured content."""
    text = result if isinstance(result, str) else orjson.dumps(result, default=str).decode()
    output: dict[str, Any] = {"content": [{"type": "text", "text": text}]}
    value = unwrap_field(target_result_field(target), result)
    schema: Any = target.schemas.output
    wrapped = isinstance(schema, dict) and schema != {} and not is_object_schema(cast("dict[str, Any]", schema))
    if isinstance(value, dict) and not wrapped:
        output[STRUCTURED_CONTENT] = value
    elif wrapped:
        output[STRUCTURED_CONTENT] = {"result": value}
    return output


def _downgrade_block(block: Any, revision: ProtocolRevision) -> Any:
    """Replace a content block whose type the client does not know by text."""
    fields = cast("dict[str, Any]", block) if isinstance(block, dict) else {}
    content_type = fields.get("type")
    if content_type in _COMMON_CONTENT_TYPES or (content_type == "audio" and revision.audio):
        return fields
    text = (
        f"{fields.get('name') or ''} {fields.get('uri')}".strip()
        if content_type == "resource_link"
        else f"[{content_type}]"
    )
    return {"type": "text", "text": text}


def complete_result(result: dict[str, Any], revision: ProtocolRevision) -> dict[str, Any]:
    """Add the fields that the revision requires in every result."""
    if revision.stateless:
        result["resultType"] = "complete"
        result["_meta"] = {**result.get("_meta", {}), SERVER_INFO_META_KEY: SERVER_INFO}
    return result


def tool_failure(error: PaddockError, revision: ProtocolRevision) -> dict[str, Any]:
    """Build the result of a failed call so that a model can read why, with the tool's own content if any."""
    result = mcp_tool_result(error)
    # Not as structured content: clients validate that against the tool's output schema, which describes successes.
    result["_meta"] = {ERROR_META_KEY: result.pop(STRUCTURED_CONTENT)}
    tool_content = error.details.get("content") if error.error_code == "tool.failed" else None
    if isinstance(tool_content, list) and tool_content:
        result["_meta"][ERROR_META_KEY]["details"].pop("content", None)
        remedy = with_sentence(error.hint, error.action) if error.action else error.hint
        hint = [{"type": "text", "text": remedy}] if remedy else []
        result["content"] = [*(_downgrade_block(block, revision) for block in cast("list[Any]", tool_content)), *hint]
    return complete_result(result, revision)


def tool_pending(pending: NeedsApproval, text: str, link: str | None, revision: ProtocolRevision) -> dict[str, Any]:
    """Build the result of a call that waits for approval, with where to answer and how to return for it.

    It is an error to clients, since the requested action was not done; models read the text.
    """
    result: dict[str, Any] = {
        "isError": True,
        "content": [{"type": "text", "text": text}],
        "_meta": {APPROVAL_META_KEY: {**pending.details, "link": link}},
    }
    return complete_result(result, revision)


def with_approval(result: dict[str, Any], approval: Mapping[str, Any]) -> dict[str, Any]:
    """Add to the result of a call how the person behind the client approved it."""
    return {**result, "_meta": {**result.get("_meta", {}), APPROVAL_META_KEY: approval}}


def encode_result(request_id: MessageId, result: bytes) -> bytes:
    """Encode a response with a result."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode_id(request_id), result)


def encode_fault(request_id: MessageId | None, fault: RpcError) -> bytes:
    """Encode an error response; without an id if the request is unknown."""
    error = orjson.dumps(error_member(fault), default=str)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (_encode_id(request_id), error)


def fault_from_error(error: PaddockError) -> RpcError:
    """Convert a Paddock error to an RPC error."""
    fields = mcp_error(error)
    return RpcError(fields["code"], fields["message"], fields["data"])


def _encode_id(request_id: MessageId | None) -> bytes:
    return b"%d" % request_id if type(request_id) is int else orjson.dumps(request_id)
