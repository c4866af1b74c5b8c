"""Parses an MCP server's result of a call. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from paddock.core.errors import PluginError
from paddock.core.ids import PluginName
from paddock.core.printable import printable
from paddock.manifest.model import CallableForm, CallableSpec
from paddock.rpc.errors import NO_EFFECT
from paddock.runtime.errors import MalformedResult
from paddock.runtime.protocols.mcp.cage_advice import cage_advice

MAX_MESSAGE_CHARS: Final = 2_000
# Protocol fields that callers do not need.
_PROTOCOL_KEYS: Final = frozenset({"_meta", "resultType", "isError", "ttlMs", "cacheScope"})
_NO_EFFECT_KEY: Final = f"paddock/{NO_EFFECT}"  # in `_meta`, which the protocol leaves open for extensions
_RESULT_KEYS: Final = {
    CallableForm.RESOURCE: "contents",
    CallableForm.PROMPT: "messages",
    CallableForm.COMPLETION: "completion",
}


def parse_call_result(
    plugin: PluginName, spec: CallableSpec, raw: Any, *, declares_for_itself: bool = False
) -> dict[str, Any]:
    """Return the result of a call without protocol fields: for a tool its `content` and `structuredContent`.

    `declares_for_itself` says whether the server has a manifest of its own that can declare more capabilities.

    Raises:
        PluginError: the tool failed, or this is not a result.
    """
    response = cast("dict[str, Any]", raw) if isinstance(raw, dict) else None
    if response is None or response.get("resultType", "complete") != "complete":
        raise _malformed_error(plugin, spec, "its answer is not a result")
    result = {key: value for key, value in response.items() if key not in _PROTOCOL_KEYS}
    if spec.form in _RESULT_KEYS:
        if _RESULT_KEYS[spec.form] not in result:
            raise _malformed_error(plugin, spec, f"its answer has no {_RESULT_KEYS[spec.form]}")
        return result
    content = result.setdefault("content", [])
    if not isinstance(content, list):
        raise _malformed_error(plugin, spec, "the content of its answer is not a list")
    if response.get("isError") is True:
        error_text = _error_text(cast("list[Any]", content))
        hint, action = cage_advice(plugin, error_text, declares_for_itself=declares_for_itself)
        raise PluginError(
            error_text or "the tool failed and gave no reason",
            code="tool.failed",
            hint=hint,
            action=action,
            details={**result, "plugin": plugin, NO_EFFECT: _declares_no_effect(response)},
        )
    return result


def _declares_no_effect(response: Mapping[str, Any]) -> bool:
    """Whether a failed tool says that it did nothing. Most fail at any point and do not say."""
    meta = response.get("_meta")
    return isinstance(meta, dict) and cast("dict[str, Any]", meta).get(_NO_EFFECT_KEY) is True


def _error_text(content: list[Any]) -> str:
    """Return the text of a failure's content as one line."""
    blocks = (cast("Mapping[str, Any]", block) for block in content if isinstance(block, dict))
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return printable(" ".join(text for text in texts if isinstance(text, str)).strip(), MAX_MESSAGE_CHARS)


def _malformed_error(plugin: PluginName, spec: CallableSpec, reason: str) -> PluginError:
    return MalformedResult(
        f"{plugin} answered {printable(spec.name)} with an invalid MCP result: {reason}",
        hint="the server's author has to fix it",
        details={"plugin": plugin},
    )
