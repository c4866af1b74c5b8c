"""The audit events of timed and durable work."""

from __future__ import annotations

from paddock.core.event import Event, event


@event("queue.given_up")
class QueueGivenUp(Event):
    """Something that was to be done failed so often that it is not tried any more; `work` is the id of what it was."""

    kind: str
    work: str
    times: int
    error_code: str
