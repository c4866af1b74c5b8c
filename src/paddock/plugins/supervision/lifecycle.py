"""The states of a plugin that is known to the host, as a table. The same table draws the diagram in the docs."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from paddock.core.errors import HostError


class State(StrEnum):
    """Where a plugin is in its life."""

    DISABLED = "disabled"  # nobody wants it to run
    SPAWNING = "spawning"  # the process starts, the handshake is under way
    RUNNING = "running"  # it answers calls
    CRASHED = "crashed"  # it ended by itself and will be started again
    FAILED = "failed"  # given up until a person enables it again
    STOPPED = "stopped"  # ended because it was asked to; may start again when it is needed


class Move(StrEnum):
    """What can happen to it."""

    ENABLE = "enable"  # a person, the start of the daemon, or a first call wants it to run
    HANDSHAKE_OK = "handshake ok"
    EXITED = "exited"  # the process ended, or could not be started just now
    REFUSED = "refused"  # starting it again would end the same way
    BACKOFF_OVER = "backoff over"
    BUDGET_SPENT = "budget spent"
    STOP = "stop"  # shutdown, idleness, or on the way to disabled
    DISABLE = "disable"


TRANSITIONS: Mapping[State, Mapping[Move, State]] = {
    State.DISABLED: {Move.ENABLE: State.SPAWNING},
    State.SPAWNING: {
        Move.HANDSHAKE_OK: State.RUNNING,
        Move.EXITED: State.CRASHED,
        Move.REFUSED: State.FAILED,
        Move.STOP: State.STOPPED,
    },
    State.RUNNING: {Move.EXITED: State.CRASHED, Move.STOP: State.STOPPED},
    State.CRASHED: {
        Move.BACKOFF_OVER: State.SPAWNING,
        Move.BUDGET_SPENT: State.FAILED,
        Move.ENABLE: State.SPAWNING,
        Move.STOP: State.STOPPED,
    },
    State.FAILED: {Move.ENABLE: State.SPAWNING, Move.STOP: State.STOPPED},
    State.STOPPED: {Move.ENABLE: State.SPAWNING, Move.DISABLE: State.DISABLED},
}

ALIVE = frozenset({State.SPAWNING, State.RUNNING})
"""The states in which there is a process."""


def after(state: State, move: Move) -> State:
    """The state that a move leads to.

    Raises:
        HostError: the table has no such move; the supervisor is wrong about where the plugin is.
    """
    try:
        return TRANSITIONS[state][move]
    except KeyError:
        raise HostError(f"a plugin that is {state} cannot {move}", code="lifecycle.impossible") from None
