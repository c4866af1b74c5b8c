"""Marks a result as nondeterministic: it came from a model, or from the outside world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from paddock_sdk.call import JsonObject

STATUSES = ("succeeded", "failed", "in_progress")  # statuses of an operator's result


def disclose(result: Any, *reasons: str, stability: Literal["high", "medium", "low"] = "medium") -> JsonObject:
    """Return an operator's result with its nondeterminism disclosed.

    Args:
        result: The whole result of an operator (with its `status`), or just the value.
        reasons: Why, e.g. `llm_sampling`, `web_content`. No reasons mean that it is deterministic.
        stability: How similar two results are.
    """
    nondeterminism = {"is_nondeterministic": bool(reasons), "reasons": list(reasons), "stability": stability}
    if isinstance(result, Mapping) and cast("Mapping[str, Any]", result).get("status") in STATUSES:
        return {**cast("Mapping[str, Any]", result), "nondeterminism": nondeterminism}
    return {"status": "succeeded", "result": result, "nondeterminism": nondeterminism}
