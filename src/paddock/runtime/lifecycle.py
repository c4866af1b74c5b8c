"""The lifecycle states of a plugin as a transition table. The table also draws the diagram in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from paddock.core.errors import HostError


class PluginState(StrEnum):
    """A plugin's lifecycle state."""

    DISABLED = "disabled"  # not wanted to run
    SPAWNING = "spawning"  # the process starts; the handshake is in progress
    RUNNING = "running"  # it answers calls
    CRASHED = "crashed"  # it ended by itself and will be started again
    FAILED = "failed"  # given up until a person enables it again
    STOPPED = "stopped"  # ended because it was asked to; may start again when it is needed


class LifecycleEvent(StrEnum):
    """An event that changes the lifecycle state."""

    ENABLE = "enable"  # requested by a person, the daemon's start, or a first call
    HANDSHAKE_OK = "handshake ok"
    EXITED = "exited"  # the process ended, or could not be started just now
    REFUSED = "refused"  # the failure would repeat at the next start
    BACKOFF_OVER = "backoff over"
    BUDGET_SPENT = "budget spent"
    STOP = "stop"  # shutdown, idleness, or on the way to disabled
    DISABLE = "disable"


TRANSITIONS: Mapping[PluginState, Mapping[LifecycleEvent, PluginState]] = {
    PluginState.DISABLED: {LifecycleEvent.ENABLE: PluginState.SPAWNING},
    PluginState.SPAWNING: {
        LifecycleEvent.HANDSHAKE_OK: PluginState.RUNNING,
        LifecycleEvent.EXITED: PluginState.CRASHED,
        LifecycleEvent.REFUSED: PluginState.FAILED,
        LifecycleEvent.STOP: PluginState.STOPPED,
    },
    PluginState.RUNNING: {LifecycleEvent.EXITED: PluginState.CRASHED, LifecycleEvent.STOP: PluginState.STOPPED},
    PluginState.CRASHED: {
        LifecycleEvent.BACKOFF_OVER: PluginState.SPAWNING,
        LifecycleEvent.BUDGET_SPENT: PluginState.FAILED,
        LifecycleEvent.ENABLE: PluginState.SPAWNING,
        LifecycleEvent.STOP: PluginState.STOPPED,
    },
    PluginState.FAILED: {LifecycleEvent.ENABLE: PluginState.SPAWNING, LifecycleEvent.STOP: PluginState.STOPPED},
    PluginState.STOPPED: {LifecycleEvent.ENABLE: PluginState.SPAWNING, LifecycleEvent.DISABLE: PluginState.DISABLED},
}

LIVE_STATES = frozenset({PluginState.SPAWNING, PluginState.RUNNING})
"""The states in which a process exists."""


def next_state(state: PluginState, event: LifecycleEvent) -> PluginState:
    """Return the state that an event leads to.

    Raises:
        HostError: the table has no such transition; the supervisor is wrong about the plugin's state.
    """
    try:
        return TRANSITIONS[state][event]
    except KeyError:
        raise HostError(f"a plugin that is {state} cannot {event}", code="lifecycle.impossible") from None
