"""Calls that wait for the approval of another call, which has the same key; nothing of them is stored."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from paddock.core.call import CallContext
from paddock.core.ids import CallId
from paddock.gate.calls.handle import CallHandle
from paddock.gate.invocation import CallRequest

MAX_JOINED_CALLS: Final = 1_000  # of one caller

_Caller: TypeAlias = tuple[str, str]


class JoinedCall(NamedTuple):
    """A call that repeats one that waits."""

    handle: CallHandle
    request: CallRequest


class JoinedCalls:
    """Holds so many of each caller, whose keys count as one: nobody takes the place of somebody else's."""

    def __init__(self) -> None:
        self._of_caller: dict[_Caller, dict[CallId, JoinedCall]] = {}
        self._callers: dict[CallId, _Caller] = {}

    def add(self, handle: CallHandle, request: CallRequest) -> CallHandle | None:
        """Hold one more; return the oldest of the same caller if they have too many now: it is not held any more."""
        caller = _caller(handle.context)
        own = self._of_caller.setdefault(caller, {})
        own[handle.id] = JoinedCall(handle, request)
        self._callers[handle.id] = caller
        if len(own) <= MAX_JOINED_CALLS:
            return None
        oldest = next(iter(own.values())).handle
        self.pop(oldest.id)
        return oldest

    def pop(self, call: CallId) -> JoinedCall | None:
        """Let go of one, and return it; None if it is not held."""
        caller = self._callers.pop(call, None)
        if caller is None:
            return None
        own = self._of_caller[caller]
        joined = own.pop(call)
        if not own:
            del self._of_caller[caller]
        return joined

    def list_of(self, call: str) -> list[CallHandle]:
        """List those that wait for the approval of this call."""
        return [
            one.handle
            for own in self._of_caller.values()
            for one in own.values()
            if one.handle.approval_call_id == call != one.handle.id
        ]


def _caller(context: CallContext) -> _Caller:
    return context.tenant, context.principal.owner or context.principal.id
