"""A line of the daemon's log for each call, under the id that follows it everywhere."""

from __future__ import annotations

import logging

from paddock.gate.course import Course
from paddock.policy.decision import Deny

_log = logging.getLogger("paddock.calls")

# What somebody should see without asking for every call: the host could not do what it was asked to.
_LOUD = frozenset({"failed", "timed_out", "in_doubt"})
_QUIET = frozenset({"succeeded"})


class CallLog:
    """Hears of every call that ended. Says nothing of what was in it: results and parameters are nobody's here."""

    def call_ended(self, course: Course) -> None:
        if course.status in _QUIET and not _log.isEnabledFor(logging.DEBUG):
            return
        kept_back = isinstance(course.decision, Deny) and bool(course.decision.public_reason)
        loud = kept_back or course.status in _LOUD  # whoever called is not told what was blocked: somebody has to be
        level = logging.DEBUG if course.status in _QUIET else logging.WARNING if loud else logging.INFO
        if not _log.isEnabledFor(level):
            return
        ended = course.ended()
        facts = {
            "tenant": course.context.tenant,
            "call": course.call,
            "request": ended.request_id,
            "plugin": ended.name,
            "callable": ended.method,
            "status": ended.status,
            "ms": ended.duration_ms,
            "decision": ended.decision,
            "policies": ",".join(ended.policies) or None,
            "error": ended.error_code,
            "approval": ended.approval,
        }
        known = {name: value for name, value in facts.items() if value is not None}
        _log.log(level, "a call %s", ended.status.replace("_", " "), extra={"facts": known})
