"""Email.GenerateDraft: an operator in the Kernel's envelope.

It sends nothing and keeps nothing, so the same call under the same idempotency key gives the same result.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from email_draft import letter
from email_draft.payload import Mistakes, read

SCOPE = "email:generate"


def execute(call: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one call: `payload`, `idempotency_key`, `auth_context`, `trace_context`, perhaps `policy_snapshot`."""
    if SCOPE not in call.get("auth_context", {}).get("scopes", ()):
        return _failed("PERMISSION_DENIED", f"the scope {SCOPE} is needed")
    if not isinstance(call.get("idempotency_key"), str) or not call["idempotency_key"]:
        return _failed("VALIDATION_ERROR", "the call has no idempotency_key")
    try:
        draft = read(call.get("payload"))
    except Mistakes as mistakes:
        return _failed("VALIDATION_ERROR", str(mistakes), mistakes.found)
    body = letter.body(draft)
    result = {
        "schema_version": "1.0",
        "subject": letter.subject(draft),
        "body": body,
        "word_count": len(body.split()),
    }
    return _envelope("succeeded", result, None)


def _failed(code: str, message: str, details: list[dict[str, str]] | None = None) -> dict[str, Any]:
    return _envelope("failed", None, {"code": code, "message": message, "details": details or []})


def _envelope(status: str, result: dict[str, Any] | None, error: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "status": status,
        "result": result,
        "artifacts": [],
        "metrics": {"tokens_in": 0, "tokens_out": 0, "cost_total": 0},
        "error": error,
        "nondeterminism": {"is_nondeterministic": False, "reasons": [], "stability": "high"},
    }
