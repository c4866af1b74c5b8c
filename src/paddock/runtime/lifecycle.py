"""The states of a plugin that is known to the host, as a table. The same table draws the diagram in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from paddock.core.errors import HostError


class PluginState(StrEnum):
    """Where a plugin is in its life."""

    DISABLED = "disabled"  # nobody wants it to run
    SPAWNING = "spawning"  # the process starts, the handshake is under way
    RUNNING = "running"  # it answers calls
    CRASHED = "crashed"  # it ended by itself and will be started again
    FAILED = "failed"  # given up until a person enables it again
    STOPPED = "stopped"  # ended because it was asked to; may start again when it is needed


class LifecycleEvent(StrEnum):
    """What can happen to it."""

    ENABLE = "enable"  # a person, the start of the daemon, or a first call wants it to run
    HANDSHAKE_OK = "handshake ok"
    EXITED = "exited"  # the process ended, or could not be started just now
    REFUSED = "refused"  # starting it again would end the same way
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
"""The states in which there is a process."""


def next_state(state: PluginState, move: LifecycleEvent) -> PluginState:
    """The state that a move leads to.

    Raises:
        HostError: the table has no such move; the supervisor is wrong about where the plugin is.
    """
    try:
        return TRANSITIONS[state][move]
    except KeyError:
        raise HostError(f"a plugin that is {state} cannot {move}", code="lifecycle.impossible") from None
