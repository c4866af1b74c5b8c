"""What became of a request for a person's yes, in words: who answered, when, and how it ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paddock.core.printable import printable

ERASED: Final = "(erased)"  # where something stood until a person was erased from the record
LONGEST: Final = 400  # characters of what people wrote; the rest is in --json
_ENDED: Final = {
    "consumed": "approved and used",
    "denied": "denied",
    "expired": "expired",
    "voided": "void",
    "withdrawn": "withdrawn",
}


def is_over(request: Mapping[str, Any]) -> bool:
    """Whether nothing can become of it any more."""
    return request["state"] in _ENDED


def was_erased(request: Mapping[str, Any]) -> bool:
    """Whether what it said went with whoever asked for it. Every other request says who that is."""
    return not request["requester"]


def what_became(request: Mapping[str, Any]) -> list[str]:
    """How a request is doing, a line for each step; `request` is as `approvals show --json` has it."""
    lines = [_answer(given) for given in request["answers"]]
    if request["replaces"]:
        lines.insert(0, f"it replaced {request['replaces']}")
    lines.append(_ended(request) if is_over(request) else _open(request))
    if (other := request["replaced_by"]) and other not in lines[-1]:
        lines.append(f"{other} replaced it")
    if request["state"] == "consumed":
        lines.append(f"the call that was made: paddock explain {request['call_id']}")
    if request["standing"]:
        lines.append(f"the yes was to last: {request['standing']}")
    return lines


def _open(request: Mapping[str, Any]) -> str:
    until = f"{request['state']} until {request['expires_at'][:19]}"
    if request["state"] == "approved":
        return f"{until}; the call was not made yet"
    own = request["kind"] in ("confirmation", "consent")
    whose = request["for_person"] if own else " or ".join(request["approvers"])
    return f"{until}; {request['quorum']} of {whose}{', another than who asks' if request['four_eyes'] else ''}"


def _ended(request: Mapping[str, Any]) -> str:
    at = f"{'since' if request['state'] == 'voided' else 'at'} {(request['ended_at'] or ERASED)[:19]}"
    # Whoever denied it said why, which stands in their answer.
    why = "" if request["state"] == "denied" else request["ended_why"]
    if not why and request["state"] in ("voided", "withdrawn"):
        why = ERASED
    return f"{_ENDED[request['state']]} {at}{f': {printable(why, LONGEST)}' if why else ''}"


def _answer(given: Mapping[str, Any]) -> str:
    by = ERASED if given["by"].startswith("erased:") else printable(given["by"], LONGEST)
    who = f"{printable(given['operator'], LONGEST)}, as {by}," if given["operator"] else by
    comment = f": {printable(given['comment'], LONGEST)}" if given["comment"] else ""
    return f"{who} said {'yes' if given['approved'] else 'no'}{comment} ({given['at'][:19]})"
