"""One zygote in the warden: a pre-started interpreter in its cage, and the copies that it offers."""

from __future__ import annotations

import contextlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from paddock.cage.bwrap.launcher import BwrapCage, BwrapLauncher
from paddock.cage.launch_request import PluginStreams
from paddock.cage.spec import CageSpec
from paddock.cage.zygote.namespaces import ZYGOTE_FILES
from paddock.cage.zygote.program import MAX_MESSAGE_BYTES, RequestDescriptors, SpareDescriptors
from paddock.cage.zygote.warm_start import ZYGOTE_PROGRAM


@dataclass(slots=True)
class ZygoteCopy:
    """A copy of the zygote that waits for a request, or has become a plugin."""

    init_pidfd: int
    plugin_pidfd: int
    status: int
    control: socket.socket
    init_pid: int
    plugin_pid: int

    def send_request(self, request: RequestDescriptors) -> None:
        """Let it become a plugin; it answers `ready` or `failed` on `control`.

        Raises:
            OSError: It is gone.
        """
        named = {name: descriptor for name, descriptor in request._asdict().items() if descriptor is not None}
        socket.send_fds(self.control, [" ".join(("order", *named)).encode()], list(named.values()))

    def close(self) -> None:
        """Release it. A copy without a request then ends."""
        self.control.close()
        for descriptor in (self.init_pidfd, self.plugin_pidfd, self.status):
            os.close(descriptor)


class Zygote:
    """A pre-started interpreter, from its start until nothing is left of it.

    Args:
        cage: The cage that it runs in.
        link: The socket on which it offers copies.
    """

    def __init__(self, cage: BwrapCage, link: socket.socket) -> None:
        self._cage = cage
        self._link = link
        self.gone = False
        self.failed = False  # it is unusable, and must be stopped

    def watched_fds(self) -> list[int]:
        """Descriptors that become readable when `poll` has something to do."""
        return [] if self.gone else [*self._cage.watched_fds(), *([] if self.failed else [self._link.fileno()])]

    def poll(self) -> list[ZygoteCopy]:
        """Process what happened, without blocking. Returns the new copies."""
        copies: list[ZygoteCopy] = []
        while not self.failed:
            try:
                message, descriptors, _, _ = socket.recv_fds(
                    self._link, MAX_MESSAGE_BYTES, len(SpareDescriptors._fields), socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                message, descriptors = b"", []
            if message == b"spare" and len(descriptors) == len(SpareDescriptors._fields):
                copies.append(_receive_copy(SpareDescriptors(*descriptors)))
                # It is up: bubblewrap's mount stage may be removed.
                self._cage.release()
            else:
                for descriptor in descriptors:
                    os.close(descriptor)
                self.failed = True
        if not self.gone and self._cage.poll() is not None:
            self.gone = self.failed = True
            self._cage.close()
            self._link.close()
        return copies

    def stop(self) -> None:
        """Kill it, with every copy of it. Poll until it is `gone`."""
        self.failed = True
        if not self.gone:
            self._cage.kill()


def start_zygote(launcher: BwrapLauncher, name: str, spec: CageSpec) -> Zygote:
    """Begin to start a zygote; its first copy shows that it is warm.

    Raises:
        OSError: Something the spec names does not exist, or the host is out of a resource.
    """
    with contextlib.ExitStack() as zygote_ends, contextlib.ExitStack() as undo:
        warden_end, link = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        undo.callback(warden_end.close)
        zygote_ends.callback(link.close)
        warden_end.setblocking(False)
        # Pipes, as a plugin has: the interpreter checks its streams at start, and a copy keeps what it saw.
        ends: list[int] = []
        for _ in range(3):
            for end in os.pipe2(os.O_CLOEXEC):
                zygote_ends.callback(os.close, end)
                ends.append(end)
        streams = PluginStreams(stdin=ends[0], stdout=ends[3], stderr=ends[5])
        cage = launcher.start_zygote(name, spec, _program_files(), streams, link)
        undo.pop_all()
        return Zygote(cage, warden_end)


def _program_files() -> dict[str, bytes]:
    """The zygote's program and the modules it imports of this package, by their paths in its cage."""
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


def _pid_of_pidfd(pidfd: int) -> int:
    """The pid behind a pidfd, in our namespace; -1 when it is gone already."""
    for line in Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines():
        if line.startswith("Pid:"):
            return int(line.split()[1])
    return -1
