"""Interfaces of the gate for those who follow calls: observers of all calls, and the listener of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from paddock.gate.invocation import Invocation

CallObserver: TypeAlias = Callable[[Invocation], None]
"""Is called with every call that ended. Must be quick, and must not raise."""


class CallListener(Protocol):
    """Follows one call."""

    @property
    def retains_result(self) -> bool:
        """Whether the result is only shown or stored by its receiver, and never changed."""
        ...

    def on_progress(self, unattended: bool) -> None:
        """The operator is still at work; `unattended`: the call goes on when nobody waits for it."""
        ...

    def on_ended(self, invocation: Invocation) -> None:
        """The call has ended, or waits for a person. Its caller gets the result or the error after this."""
        ...


class NullListener:
    """A listener that ignores everything."""

    retains_result = False

    def on_progress(self, unattended: bool) -> None: ...

    def on_ended(self, invocation: Invocation) -> None: ...


NULL_LISTENER = NullListener()
