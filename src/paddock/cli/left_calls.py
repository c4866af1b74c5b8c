"""What is told of a call that its caller stopped waiting for, or whose daemon went away. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paddock.core.errors import HostError, PaddockError, TimedOut
from paddock.plugins.mending import for_tenant


def timed_out(seconds: float | None, call: Mapping[str, Any] | None, tenant: str) -> TimedOut:
    """What whoever waited no longer than that is told.

    Args:
        seconds: How long they waited.
        call: How it is doing by now, as data; None where nobody knows.
        tenant: Whose it is.
    """
    hint, details, again = _left(call, tenant)
    error = TimedOut(f"no answer within {seconds or 0:g} s", code="call.timeout", hint=hint, details=details)
    if not again:
        error.__dict__["retryable"] = False
    return error


def _left(call: Mapping[str, Any] | None, tenant: str) -> tuple[str, dict[str, Any], bool]:
    """What to do about it, what machines are told, and whether the same call may simply be made again."""
    if call is None:
        return "it was asked to end, and may have happened", {}, False
    call_id, own = call["call_id"], for_tenant(tenant)
    told: Mapping[str, Any] = call.get("error") or {}
    details = {"call_id": call_id}
    match call["status"]:
        case "cancelled":
            return "the call was cancelled", details, True
        case "in_doubt":
            return str(told.get("hint", "")), details | {"effect": "in_doubt"}, False
        case "failed":
            return f"it failed meanwhile: {told.get('message', '')}", details, bool(told.get("retryable"))
        case "succeeded":
            return f"it has succeeded meanwhile: paddock calls show {call_id}{own}", details, False
        case _:
            follow, cancel = f"paddock calls follow {call_id}{own}", f"paddock calls cancel {call_id}{own}"
            return f"the call goes on: {follow}; end it: {cancel}", details | {"status": call["status"]}, False


def lost(error: PaddockError, call_id: str, key: str | None, tenant: str, waits_for: str | None) -> HostError:
    """What whoever made a call is told when its daemon went away.

    Args:
        error: What became of the connection.
        call_id: The call; empty where the daemon did not get so far as to say.
        key: What it happens once under.
        tenant: Whose it is.
        waits_for: The request for a person's yes, where it waits for one.
    """
    own = for_tenant(tenant)
    details = ({"call_id": call_id} if call_id else {}) | ({"idempotency_key": key} if key else {})
    if waits_for:
        hint = f"the call waits on, and is made once it has its yes: paddock approvals approve {waits_for}{own}"
    elif key:
        hint = "the call may have happened: make it again with the same key, and it happens once all the same"
    elif call_id:
        hint = f"the call may have happened: before you make it again, see paddock run doubt show {call_id}{own}"
    else:
        hint = "the call may have happened"
    hint += "; start the daemon: paddock serve"
    return HostError(error.message, code=error.error_code, hint=hint, details=details)
