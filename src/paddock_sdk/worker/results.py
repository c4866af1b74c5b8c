"""Puts results of plugins into the envelope of their dialect. Pure.

A result with an envelope's status is an envelope already; any other value is put into one. Objects with fields
(dataclasses, named tuples, models, or any object with a `status`) are converted to their fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from paddock_sdk.call import JsonObject
from paddock_sdk.coroutine_runner import is_result_step
from paddock_sdk.disclosure import STATUSES
from paddock_sdk.faults import PluginFault
from paddock_sdk.jsonable import fields_of

SHU_STATUSES = ("success", "error", "timeout")
SHU_FIELDS = ("data", "error", "cost", "diagnostics", "skips", "citations", "next_cursor")
SKIP_REASONS = ("too_large", "ext_filtered", "unsupported_format", "empty_extraction", "auth", "network", "other")
TOOL_FIELDS = ("result", "metrics", "error")
OPERATOR_FIELDS = ("result", "artifacts", "metrics", "error", "nondeterminism", "retry_after_s")


def result_fields(value: Any) -> JsonObject | None:
    """Return the fields of a possible envelope; None if it has none."""
    fields = fields_of(value)
    if fields is None and not isinstance(value, type) and hasattr(value, "status"):
        fields = dict(cast("JsonObject", vars(value)))
    if fields is None:
        return None
    status = fields.get("status")
    return (
        fields if status is None or isinstance(status, str) else {**fields, "status": getattr(status, "value", status)}
    )


def is_last_step(step: Any) -> bool:
    """Whether a step of a stream may be its result: it has an envelope's status, or the type `result`."""
    fields = result_fields(step)
    return is_result_step(step) or (fields is not None and fields.get("status") in (*SHU_STATUSES, *STATUSES))


def step_event(step: Any) -> JsonObject:
    """Return a step as an event: a step with a type is one already."""
    fields = fields_of(step)
    return fields if fields is not None and isinstance(fields.get("type"), str) else {"type": "data", "data": step}


def shu_result(value: Any, *, debug: bool) -> JsonObject:
    """Return Shu's ToolResult, without absent fields.

    Args:
        value: The return value of `execute`.
        debug: Whether the caller wants diagnostics.

    Raises:
        PluginFault: an item was skipped for a reason that Shu does not know.
    """
    fields = result_fields(value)
    if fields is None or fields.get("status") not in SHU_STATUSES:
        return {"status": "success", "data": value}
    envelope = {name: fields[name] for name in SHU_FIELDS if fields.get(name) is not None}
    if not debug:
        envelope.pop("diagnostics", None)
    if "error" in envelope:
        envelope["error"] = error_fields(envelope["error"])
    if "skips" in envelope:
        envelope["skips"] = checked_skips(envelope["skips"])
    if fields["status"] == "success":
        envelope.setdefault("data", None)
    return {"status": fields["status"], **envelope}


def action_result(value: Any, *, debug: bool) -> JsonObject:
    """Return Shu's ActionResult. A value without a status is the result of a completed action."""
    fields = result_fields(value)
    if fields is None or fields.get("status") not in ("pending_approval", "ok", "error"):
        return {"status": "ok", "result": value}
    envelope = {name: one for name, one in fields.items() if one is not None and (debug or name != "diagnostics")}
    if "error" in envelope:
        envelope["error"] = error_fields(envelope["error"])
    return envelope


def checked_skips(skips: Any) -> list[JsonObject]:
    """Return the skipped items as objects.

    Raises:
        PluginFault: an item has no id, or an unknown reason.
    """
    mistakes: list[dict[str, str]] = []
    items: list[JsonObject] = []
    for index, skip in enumerate(cast("list[Any]", skips) if isinstance(skips, list | tuple) else [skips]):
        item = dict(fields_of(skip) or {})
        reason = getattr(item.get("reason"), "value", item.get("reason"))
        if item.get("id") is None:
            mistakes.append({"path": f"skips[{index}].id", "message": "is missing"})
        if reason not in SKIP_REASONS:
            message = f"must be one of {', '.join(SKIP_REASONS)}"
            mistakes.append({"path": f"skips[{index}].reason", "message": message})
        items.append({name: value for name, value in {**item, "reason": reason}.items() if value is not None})
    if mistakes:
        summary = "; ".join(f"{skip['path']} {skip['message']}" for skip in mistakes[:3])
        raise PluginFault(summary, {"code": "output_validation_error", "errors": mistakes})
    return items


def error_fields(error: Any) -> JsonObject:
    """Return an error as `{code, message}`, whatever the plugin returned."""
    fields = fields_of(error)
    if fields is not None:
        return {"code": "error", "message": "the plugin gave no reason", **fields}
    return {"code": "error", "message": str(error)}


def kernel_result(value: Any, kind: str) -> Any:
    """Return the Kernel's envelope for a tool or an operator. Results of agents and adapters are not wrapped."""
    if kind == "operator":
        fields = result_fields(value)
        if fields is None or fields.get("status") not in STATUSES:
            return {"status": "succeeded", "result": value}
        return _select_fields(fields, ("status", *OPERATOR_FIELDS))
    if kind == "tool":
        fields = fields_of(value)
        enveloped = fields is not None and set(fields) <= set(TOOL_FIELDS) and ("result" in fields or "error" in fields)
        return _select_fields(fields, TOOL_FIELDS) if fields is not None and enveloped else {"result": value}
    return value


def kernel_failure(kind: str, code: str, message: str, details: Any) -> JsonObject:
    """Return the error envelope of a tool or operator."""
    error: JsonObject = {"code": code, "message": message, "details": details}
    return {"status": "failed", "result": None, "error": error} if kind == "operator" else {"error": error}


def _select_fields(fields: Mapping[str, Any], names: tuple[str, ...]) -> JsonObject:
    envelope = {name: fields[name] for name in names if name in fields}
    if envelope.get("error") is not None:
        envelope["error"] = error_fields(envelope["error"])
    return envelope
