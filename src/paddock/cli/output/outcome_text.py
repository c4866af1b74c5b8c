"""What is told of a call that its caller stopped waiting for, or whose daemon went away. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.core.errors import HostError, PaddockError, TimedOut
from paddock.core.printable import printable
from paddock.plugins.manage.repair_text import tenant_option


def call_timeout_error(seconds: float | None, call: Mapping[str, Any] | None, tenant: str) -> TimedOut:
    """What whoever waited no longer than that is told.

    Args:
        seconds: How long they waited.
        call: How it is doing by now, as data; None where nobody knows.
        tenant: Whose it is.
    """
    hint, details, again = _next_step_for_call(call, tenant)
    error = TimedOut(f"no answer within {seconds or 0:g} s", code="call.timeout", hint=hint, details=details)
    if not again:
        error.__dict__["retryable"] = False
    return error


def _next_step_for_call(call: Mapping[str, Any] | None, tenant: str) -> tuple[str, dict[str, Any], bool]:
    """What to do about it, what machines are told, and whether the same call may simply be made again."""
    if call is None:
        return "it was asked to end, and may have happened", {}, False
    call_id, own = call["call_id"], tenant_option(tenant)
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


def daemon_lost_error(
    error: PaddockError, call_id: str, key: str | None, tenant: str, waits_for: str | None
) -> HostError:
    """What whoever made a call is told when its daemon went away.

    Args:
        error: What became of the connection.
        call_id: The call; empty where the daemon did not get so far as to say.
        key: What it happens once under.
        tenant: Whose it is.
        waits_for: The request for a person's yes, where it waits for one.
    """
    own = tenant_option(tenant)
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


ERASED_TEXT: Final = "(erased)"  # where something stood until a person was erased from the record
MAX_COMMENT_CHARS: Final = 400  # characters of what people wrote; the rest is in --json
_STATUS_TEXTS: Final = {
    "consumed": "approved and used",
    "denied": "denied",
    "expired": "expired",
    "voided": "void",
    "withdrawn": "withdrawn",
}


def is_closed(request: Mapping[str, Any]) -> bool:
    """Whether nothing can become of it any more."""
    return request["state"] in _STATUS_TEXTS


def is_erased(request: Mapping[str, Any]) -> bool:
    """Whether what it said went with whoever asked for it. Every other request says who that is."""
    return not request["requester"]


def describe_approval(request: Mapping[str, Any]) -> list[str]:
    """How a request is doing, a line for each step; `request` is as `approvals show --json` has it."""
    lines = [_describe_answer(given) for given in request["answers"]]
    if request["replaces"]:
        lines.insert(0, f"it replaced {request['replaces']}")
    lines.append(_describe_closed(request) if is_closed(request) else _describe_open(request))
    if (other := request["replaced_by"]) and other not in lines[-1]:
        lines.append(f"{other} replaced it")
    if request["state"] == "consumed":
        lines.append(f"the call that was made: paddock explain {request['call_id']}")
    if request["standing"]:
        lines.append(f"the yes was to last: {request['standing']}")
    return lines


def _describe_open(request: Mapping[str, Any]) -> str:
    until = f"{request['state']} until {request['expires_at'][:19]}"
    if request["state"] == "approved":
        return f"{until}; the call was not made yet"
    own = request["kind"] in ("confirmation", "consent")
    whose = request["for_person"] if own else " or ".join(request["approvers"])
    return f"{until}; {request['quorum']} of {whose}{', another than who asks' if request['four_eyes'] else ''}"


def _describe_closed(request: Mapping[str, Any]) -> str:
    at = f"{'since' if request['state'] == 'voided' else 'at'} {(request['ended_at'] or ERASED_TEXT)[:19]}"
    # Whoever denied it said why, which stands in their answer.
    why = "" if request["state"] == "denied" else request["ended_why"]
    if not why and request["state"] in ("voided", "withdrawn"):
        why = ERASED_TEXT
    return f"{_STATUS_TEXTS[request['state']]} {at}{f': {printable(why, MAX_COMMENT_CHARS)}' if why else ''}"


def _describe_answer(given: Mapping[str, Any]) -> str:
    by = ERASED_TEXT if given["by"].startswith("erased:") else printable(given["by"], MAX_COMMENT_CHARS)
    who = f"{printable(given['operator'], MAX_COMMENT_CHARS)}, as {by}," if given["operator"] else by
    comment = f": {printable(given['comment'], MAX_COMMENT_CHARS)}" if given["comment"] else ""
    return f"{who} said {'yes' if given['approved'] else 'no'}{comment} ({given['at'][:19]})"
