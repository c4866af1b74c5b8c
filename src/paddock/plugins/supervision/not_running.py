"""Why a call to a plugin that does not run is refused, in words. No I/O."""

from __future__ import annotations

from paddock.core.errors import Failed, Unavailable
from paddock.plugins.mending import mend_and_enable
from paddock.plugins.supervision.diagnosis import Diagnosis, see_its_log
from paddock.plugins.supervision.lifecycle import State

SOON = "try again in a moment"


def refusal(
    plugin: str,
    state: State,
    why: Diagnosis,
    error_code: str = "",
    *,
    restarts: bool = True,
    still_starting: bool = False,
) -> Unavailable:
    """What its caller meets.

    Args:
        plugin: Its name.
        state: Where it is.
        why: How its last process ended, where that is why.
        error_code: The same for machines.
        restarts: Whether anybody starts it again by itself: a host that is there for one call does not.
        still_starting: Whether it may still come, later than its caller could wait.
    """
    details = {"plugin": plugin, "state": state.value} | ({"reason_code": error_code} if error_code else {})
    kind = Unavailable
    match state:
        case _ if still_starting:
            words, hint = "it is still starting", SOON
        case State.FAILED:
            kind = Failed
            words, hint = f"it failed: {why.reason}", why.hint or mend_and_enable(plugin)
        case State.CRASHED if restarts:
            words = f"it is being restarted: {why.reason}"
            hint = f"{SOON}; {why.hint}" if why.hint else SOON
        case State.CRASHED:
            words, hint = why.reason, why.hint or see_its_log(plugin)
        case State.DISABLED:
            words, hint = "it is disabled", f"paddock plugin enable {plugin}"
        case _:
            words, hint = f"it is {state}", SOON
    return kind(f"{plugin} does not run: {words}", hint=hint, details=details)
