"""What plugins answer with, in the envelope of their dialect. Pure.

A result is an envelope when it has the status that envelopes have; anything else is the value itself and is put into
one. Objects with fields (dataclasses, named tuples, models, or any object with a `status`) count as their fields.
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
    """The fields of something that may be an envelope; None where it has none."""
    found = fields_of(value)
    if found is None and not isinstance(value, type) and hasattr(value, "status"):
        found = dict(cast("JsonObject", vars(value)))
    if found is None:
        return None
    status = found.get("status")
    return found if status is None or isinstance(status, str) else {**found, "status": getattr(status, "value", status)}


def is_last_step(step: Any) -> bool:
    """Whether a step of a stream may be its result: it has the status of an envelope, or the type `result`."""
    found = result_fields(step)
    return is_result_step(step) or (found is not None and found.get("status") in (*SHU_STATUSES, *STATUSES))


def step_event(step: Any) -> JsonObject:
    """A step as an event: a step that has a type is one already."""
    found = fields_of(step)
    return found if found is not None and isinstance(found.get("type"), str) else {"type": "data", "data": step}


def shu_result(value: Any, *, debug: bool) -> JsonObject:
    """Shu's ToolResult, without what is absent.

    Args:
        value: What `execute` gave.
        debug: Whether whoever asked wants diagnostics.

    Raises:
        PluginFault: it skipped something for a reason that Shu does not know.
    """
    found = result_fields(value)
    if found is None or found.get("status") not in SHU_STATUSES:
        return {"status": "success", "data": value}
    told = {name: found[name] for name in SHU_FIELDS if found.get(name) is not None}
    if not debug:
        told.pop("diagnostics", None)
    if "error" in told:
        told["error"] = error_fields(told["error"])
    if "skips" in told:
        told["skips"] = checked_skips(told["skips"])
    if found["status"] == "success":
        told.setdefault("data", None)
    return {"status": found["status"], **told}


def action_result(value: Any, *, debug: bool) -> JsonObject:
    """Shu's ActionResult. Without a status it is the result of an action that was done."""
    found = result_fields(value)
    if found is None or found.get("status") not in ("pending_approval", "ok", "error"):
        return {"status": "ok", "result": value}
    told = {name: one for name, one in found.items() if one is not None and (debug or name != "diagnostics")}
    if "error" in told:
        told["error"] = error_fields(told["error"])
    return told


def checked_skips(skips: Any) -> list[JsonObject]:
    """The skipped items as objects.

    Raises:
        PluginFault: one has no id, or a reason that is not on the list.
    """
    mistakes: list[dict[str, str]] = []
    items: list[JsonObject] = []
    for index, one in enumerate(cast("list[Any]", skips) if isinstance(skips, list | tuple) else [skips]):
        item = dict(fields_of(one) or {})
        reason = getattr(item.get("reason"), "value", item.get("reason"))
        if item.get("id") is None:
            mistakes.append({"path": f"skips[{index}].id", "message": "is missing"})
        if reason not in SKIP_REASONS:
            words = f"must be one of {', '.join(SKIP_REASONS)}"
            mistakes.append({"path": f"skips[{index}].reason", "message": words})
        items.append({name: value for name, value in {**item, "reason": reason}.items() if value is not None})
    if mistakes:
        told = "; ".join(f"{one['path']} {one['message']}" for one in mistakes[:3])
        raise PluginFault(told, {"code": "output_validation_error", "errors": mistakes})
    return items


def error_fields(error: Any) -> JsonObject:
    """An error as `{code, message}`, whatever a plugin put there."""
    found = fields_of(error)
    if found is not None:
        return {"code": "error", "message": "the plugin gave no reason", **found}
    return {"code": "error", "message": str(error)}


def kernel_result(value: Any, kind: str) -> Any:
    """The Kernel's envelope for a tool or an operator. What an agent or an adapter gives is its answer as it is."""
    if kind == "operator":
        found = result_fields(value)
        if found is None or found.get("status") not in STATUSES:
            return {"status": "succeeded", "result": value}
        return _select_fields(found, ("status", *OPERATOR_FIELDS))
    if kind == "tool":
        found = fields_of(value)
        enveloped = found is not None and set(found) <= set(TOOL_FIELDS) and ("result" in found or "error" in found)
        return _select_fields(found, TOOL_FIELDS) if found is not None and enveloped else {"result": value}
    return value


def kernel_failure(kind: str, code: str, message: str, details: Any) -> JsonObject:
    """The envelope of a tool or operator that answers with an error."""
    error: JsonObject = {"code": code, "message": message, "details": details}
    return {"status": "failed", "result": None, "error": error} if kind == "operator" else {"error": error}


def _select_fields(found: Mapping[str, Any], names: tuple[str, ...]) -> JsonObject:
    told = {name: found[name] for name in names if name in found}
    if told.get("error") is not None:
        told["error"] = error_fields(told["error"])
    return told
