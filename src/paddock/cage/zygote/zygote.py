"""One zygote as the warden sees it: a warm interpreter in its cage, and the copies that it offers."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from paddock.cage.bwrap.launcher import BwrapCage, BwrapLauncher
from paddock.cage.launch_strategy import PluginStreams
from paddock.cage.spec import CageSpec
from paddock.cage.zygote.namespaces import ZYGOTE_FILES
from paddock.cage.zygote.program import MAX_MESSAGE_BYTES, RequestDescriptors, SpareDescriptors
from paddock.cage.zygote.warm_start import ZYGOTE_PROGRAM


@dataclass(slots=True)
class ZygoteCopy:
    """A copy of the zygote that waits for an order, or has become a plugin."""

    init_pidfd: int
    plugin_pidfd: int
    status: int
    control: socket.socket
    init_pid: int
    plugin_pid: int

    def send_request(self, order: RequestDescriptors) -> None:
        """Have it become a plugin; it says `ready` or `failed` on `control`.

        Raises:
            OSError: it is gone.
        """
        given = {name: descriptor for name, descriptor in order._asdict().items() if descriptor is not None}
        socket.send_fds(self.control, [" ".join(("order", *given)).encode()], list(given.values()))

    def close(self) -> None:
        """Let go of it. A copy without an order then ends."""
        self.control.close()
        for descriptor in (self.init_pidfd, self.plugin_pidfd, self.status):
            os.close(descriptor)


class Zygote:
    """A warm interpreter, from its start until nothing is left of it.

    Args:
        body: The cage that it lives in.
        link: The socket on which it offers copies.
    """

    def __init__(self, body: BwrapCage, link: socket.socket) -> None:
        self._body = body
        self._link = link
        self.gone = False
        self.failed = False  # it is of no use any more, and must be stopped

    def watched_fds(self) -> list[int]:
        """Descriptors that become readable when there is something to look at."""
        return [] if self.gone else [*self._body.watched_fds(), *([] if self.failed else [self._link.fileno()])]

    def poll(self) -> list[ZygoteCopy]:
        """Take in what happened, without waiting; gives the copies that are new."""
        found: list[ZygoteCopy] = []
        while not self.failed:
            try:
                said, descriptors, _, _ = socket.recv_fds(
                    self._link, MAX_MESSAGE_BYTES, len(SpareDescriptors._fields), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                said, descriptors = b"", []
            if said == b"spare" and len(descriptors) == len(SpareDescriptors._fields):
                found.append(_receive_copy(SpareDescriptors(*descriptors)))
                # It is up: what bubblewrap was shown may go.
                self._body.release()
            else:
                for descriptor in descriptors:
                    os.close(descriptor)
                self.failed = True
        if not self.gone and self._body.poll() is not None:
            self.gone = self.failed = True
            self._body.close()
            self._link.close()
        return found

    def stop(self) -> None:
        """End it, with every copy of it. Look until it is `gone`."""
        self.failed = True
        if not self.gone:
            self._body.kill()


def start_zygote(way: BwrapLauncher, name: str, spec: CageSpec) -> Zygote:
    """Begin to start one; its first copy tells that it is warm.

    Raises:
        OSError: something the spec names is not there, or we ran out of something.
    """
    with contextlib.ExitStack() as theirs, contextlib.ExitStack() as undo:
        ours, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undo.callback(ours.close)
        theirs.callback(link.close)
        ours.setblocking(False)
        # Pipes, as a plugin has: the interpreter looks at its streams when it starts, and a copy keeps what it saw.
        ends: list[int] = []
        for _ in range(3):
            for end in os.pipe2(os.O_CLOEXEC):
                theirs.callback(os.close, end)
                ends.append(end)
        streams = PluginStreams(stdin=ends[0], stdout=ends[3], stderr=ends[5])
        body = way.start_zygote(name, spec, _program_files(), streams, link)
        undo.pop_all()
        return Zygote(body, ours)


def _program_files() -> dict[str, bytes]:
    """The zygote's program, and what it imports of this package, by their paths in its cage."""
    package = Path(__file__).parents[1]
    modules = {
        f"{ZYGOTE_FILES}/paddock/cage/{name}": (package / name).read_bytes()
        for name in ("confine/sandbox_init.py", "zygote/namespaces.py")
    }
    packages = {
        f"{ZYGOTE_FILES}/paddock{inner}/__init__.py": b"" for inner in ("", "/cage", "/cage/confine", "/cage/zygote")
    }
    return {ZYGOTE_PROGRAM: (package / "zygote/program.py").read_bytes(), **modules, **packages}


def _receive_copy(spare: SpareDescriptors) -> ZygoteCopy:
    control = socket.socket(fileno=spare.control)
    control.setblocking(False)
    return ZygoteCopy(
        spare.first, spare.plugin, spare.status, control, _pid_of_pidfd(spare.first), _pid_of_pidfd(spare.plugin)
    )


def _pid_of_pidfd(handle: int) -> int:
    """The pid behind a handle, in our numbers; -1 when it is gone already."""
    for line in Path(f"/proc/self/fdinfo/{handle}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
