"""Texts about the outcome of calls that are no longer waited for, and about approval requests. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.cli.output.action_text import remedy_lines_of, tenant_option
from paddock.core.errors import HostError, PaddockError, TimedOut
from paddock.core.printable import printable

ERASED_TEXT: Final = "(erased)"  # in place of data about an erased person
MAX_COMMENT_CHARS: Final = 400  # of people's comments; the rest is in --json
_STATUS_TEXTS: Final = {
    "consumed": "approved and used",
    "denied": "denied",
    "expired": "expired",
    "voided": "void",
    "withdrawn": "withdrawn",
}


def call_timeout_error(timeout_s: float | None, call: Mapping[str, Any] | None, tenant: str) -> TimedOut:
    """Build the error for a call that exceeded its timeout.

    Args:
        timeout_s: The timeout.
        call: The call's state by now, as JSON data; None if it is unknown.
        tenant: The call's tenant.
    """
    hint, details, retryable = _next_step_for_call(call, tenant)
    message = f"no answer within {timeout_s or 0:g} s"
    return TimedOut(message, code="call.timeout", hint=hint, details=details, retryable=retryable)


def _next_step_for_call(call: Mapping[str, Any] | None, tenant: str) -> tuple[str, dict[str, Any], bool]:
    """Return the hint, the error details, and whether the same call may simply be repeated."""
    if call is None:
        return "it was asked to end, and may have happened", {}, False
    call_id, option = call["call_id"], tenant_option(tenant)
    error: Mapping[str, Any] = call.get("error") or {}
    details = {"call_id": call_id}
    match call["status"]:
        case "cancelled":
            return "the call was cancelled", details, True
        case "in_doubt":
            return "; ".join(remedy_lines_of(error)), details | {"effect": "in_doubt"}, False
        case "failed":
            return f"it failed meanwhile: {error.get('message', '')}", details, bool(error.get("retryable"))
        case "succeeded":
            return f"it has succeeded meanwhile: paddock call show {call_id}{option}", details, False
        case _:
            follow, cancel = f"paddock call follow {call_id}{option}", f"paddock call cancel {call_id}{option}"
            return f"the call goes on: {follow}; end it: {cancel}", details | {"status": call["status"]}, False


def daemon_lost_error(
    error: PaddockError, call_id: str, key: str | None, tenant: str, approval_id: str | None
) -> HostError:
    """Build the error for a call whose daemon went away.

    Args:
        error: The connection's error.
        call_id: The call; empty if the daemon had not reported it yet.
        key: Its idempotency key.
        tenant: The call's tenant.
        approval_id: The approval request that the call waits for, if any.
    """
    option = tenant_option(tenant)
    details = ({"call_id": call_id} if call_id else {}) | ({"idempotency_key": key} if key else {})
    if approval_id:
        hint = f"the call waits for approval: paddock approval approve {approval_id}{option}"
    elif key:
        hint = "the call may have happened: make it again with the same key, and it happens once all the same"
    elif call_id:
        hint = (
            f"the call may have happened: before you make it again, see paddock call unresolved show {call_id}{option}"
        )
    else:
        hint = "the call may have happened"
    hint += "; start the daemon: paddock serve"
    return HostError(error.message, code=error.error_code, hint=hint, details=details)


def requester_text(principal: str | None, name: str) -> str:
    """Return how to name a caller: a key by its owner and label, since its id says nothing to people."""
    is_key = (principal or "").rpartition("/")[2].startswith("key:")
    return printable((name if is_key else principal) or "", 200)


def is_closed(request: Mapping[str, Any]) -> bool:
    """Whether the request is closed."""
    return request["state"] in _STATUS_TEXTS


def is_erased(request: Mapping[str, Any]) -> bool:
    """Whether the request was erased with its requester; every other request names one."""
    return not request["requester"]


def describe_approval(request: Mapping[str, Any]) -> list[str]:
    """Describe a request's history, one line per step; `request` is as in `approval show --json`."""
    lines = [_describe_answer(answer, request["kind"]) for answer in request["answers"]]
    if request["replaces"]:
        lines.insert(0, f"it replaced {request['replaces']}")
    lines.append(_describe_closed(request) if is_closed(request) else _describe_open(request))
    if (replacement := request["replaced_by"]) and replacement not in lines[-1]:
        lines.append(f"{replacement} replaced it")
    if request["state"] == "consumed":
        lines.append(f"the call that was made: paddock explain {request['call_id']}")
    if request["standing"]:
        lines.append(f"it became a standing approval: {request['standing']}")
    lines += [f"it waited for the same, and was approved too: {covered['id']}" for covered in request["also_approved"]]
    return lines


def _describe_open(request: Mapping[str, Any]) -> str:
    until = f"{request['state']} until {request['expires_at'][:19]}"
    if request["state"] == "approved":
        return f"{until}; the call was not made yet"
    is_personal = request["kind"] in ("confirmation", "consent")
    approvers = request["for_person"] if is_personal else " or ".join(request["approvers"])
    return f"{until}; {request['quorum']} of {approvers}{', not the requester' if request['four_eyes'] else ''}"


def _describe_closed(request: Mapping[str, Any]) -> str:
    when = f"{'since' if request['state'] == 'voided' else 'at'} {(request['ended_at'] or ERASED_TEXT)[:19]}"
    # A denial's reason stands in its answer.
    reason = "" if request["state"] == "denied" else request["ended_why"]
    if not reason and request["state"] in ("voided", "withdrawn"):
        reason = ERASED_TEXT
    return f"{_STATUS_TEXTS[request['state']]} {when}{f': {printable(reason, MAX_COMMENT_CHARS)}' if reason else ''}"


def _describe_answer(answer: Mapping[str, Any], kind: str) -> str:
    by = ERASED_TEXT if answer["by"].startswith("erased:") else printable(answer["by"], MAX_COMMENT_CHARS)
    approver = f"{printable(answer['operator'], MAX_COMMENT_CHARS)}, as {by}," if answer["operator"] else by
    comment = f": {printable(answer['comment'], MAX_COMMENT_CHARS)}" if answer["comment"] else ""
    if not answer["approved"]:
        return f"{approver} denied it{comment} ({answer['at'][:19]})"
    scope = f" for {scope_text(answer)}" if kind == "confirmation" else ""
    standing = f", with the standing approval {answer['standing']}" if answer["standing"] else ""
    return f"{approver} approved it{scope}{standing}{comment} ({answer['at'][:19]})"


def scope_text(answer: Mapping[str, Any]) -> str:
    """Return for which calls an approval holds."""
    calls = "all calls of the plugin" if answer["reach"] == "plugin" else "all calls of the tool"
    return {
        "always": f"{calls}, until the plugin is upgraded",
        "session": f"{calls} in the session",
        "once": "this call alone",
    }[answer["scope"]]
