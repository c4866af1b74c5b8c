"""The messages between daemon and warden: small JSON objects, with descriptors attached.

A SOCK_SEQPACKET socket joins the two, so that a message arrives whole or not at all. A spec may be larger than a
packet, so it travels as a memfd.

    daemon → warden    launch (the plugin's pipes and the spec as descriptors) · signal · kill
    warden → daemon    hello or unfit · listeners (sockets as descriptors) · observed · started · refused · ended

Named tuples, because a warden has to start quickly: nine dataclasses would take a tenth of its start time.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paddock.cage.linux import create_memfd

MAX_MESSAGE_BYTES = 64 * 1024
MAX_DESCRIPTORS = 64  # in one message; the kernel's own bound is 253


class LaunchCage(NamedTuple):
    """Start a cage.

    Descriptors: the plugin's stdin, stdout and stderr, its two artifact pipes where it has them, then the spec's file.
    """

    kind = "launch"
    number: int  # identifies the cage from now on; never used twice on one socket


class SignalPlugin(NamedTuple):
    """Send a signal to the plugin's own process."""

    kind = "signal"
    number: int
    signal: int


class KillCage(NamedTuple):
    """Kill everything in the cage."""

    kind = "kill"
    number: int


class WardenReady(NamedTuple):
    """The warden is ready, and says what limits each resource."""

    kind = "hello"
    mechanisms: Mapping[str, str]


class WardenUnfit(NamedTuple):
    """The warden cannot build cages here, says why, and ends. Sent instead of `hello`."""

    kind = "unfit"
    code: str
    message: str
    hint: str = ""


class CageListeners(NamedTuple):
    """Sockets that listen inside the cage's network; sent before `started`, in the order of the plan."""

    kind = "listeners"
    number: int


class CageObserved(NamedTuple):
    """The seccomp listener of a learning cage as descriptor; sent before `started`."""

    kind = "observed"
    number: int


class CageStarted(NamedTuple):
    """The cage is complete and the program runs, with this pid on the host."""

    kind = "started"
    number: int
    pid: int


class CageRefused(NamedTuple):
    """No program was run, and nothing of the cage is left. `setup` is true when bubblewrap's stderr has the reason."""

    kind = "refused"
    number: int
    code: str
    message: str
    hint: str = ""
    setup: bool = False


class CageEnded(NamedTuple):
    """The program that was started is gone, with everything that was in its cage."""

    kind = "ended"
    number: int
    code: int | None
    signal: int | None = None
    cause: str = ""


WardenMessage = (
    LaunchCage
    | SignalPlugin
    | KillCage
    | WardenReady
    | WardenUnfit
    | CageListeners
    | CageObserved
    | CageStarted
    | CageRefused
    | CageEnded
)
_MESSAGE_TYPES: dict[str, type[WardenMessage]] = {
    kind.kind: kind
    for kind in (
        LaunchCage,
        SignalPlugin,
        KillCage,
        WardenReady,
        WardenUnfit,
        CageListeners,
        CageObserved,
        CageStarted,
        CageRefused,
        CageEnded,
    )
}


class DescriptorsLost(OSError):
    """Descriptors were sent to us and we had no room for them; those that did arrive are closed again."""

    def __init__(self, message: WardenMessage) -> None:
        super().__init__("no room for the descriptors that came with a message")
        self.lost = message


def send(connection: socket.socket, message: WardenMessage, descriptors: Sequence[int] = ()) -> None:
    """Send one message with its descriptors.

    Raises:
        OSError: The other side is gone, or reads too slowly (BlockingIOError).
    """
    payload = json.dumps({"kind": message.kind, **message._asdict()}).encode()
    if descriptors:
        socket.send_fds(connection, [payload], list(descriptors), socket.MSG_NOSIGNAL)
    else:
        connection.send(payload, socket.MSG_NOSIGNAL)


def receive(connection: socket.socket) -> tuple[WardenMessage, list[int]] | None:
    """Receive the next message with its descriptors; None when the other side is gone.

    Raises:
        BlockingIOError: No message is there yet.
        DescriptorsLost: The message came, its descriptors did not all fit.
    """
    try:
        payload, descriptors, flags, _ = socket.recv_fds(connection, MAX_MESSAGE_BYTES, MAX_DESCRIPTORS)
    except ConnectionResetError:
        return None
    if not payload:
        return None
    data: dict[str, Any] = json.loads(payload)
    message = _MESSAGE_TYPES[data.pop("kind")](**data)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    if flags & socket.MSG_CTRUNC:
        for descriptor in descriptors:
            os.close(descriptor)
        raise DescriptorsLost(message)
    return message, descriptors


def write_json_memfd(data: Mapping[str, Any]) -> int:
    """Write JSON data to a memfd, positioned at its start."""
    return create_memfd(json.dumps(data).encode())


def read_json_file(descriptor: int) -> dict[str, Any]:
    """Read what `write_json_memfd` wrote. Closes the descriptor."""
    with os.fdopen(descriptor, "rb") as file:
        return json.loads(file.read())
