"""Runs the observer of a learning cage, and collects what it saw."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

from anyio import CancelScope

from paddock.cage.confine import observer_program
from paddock.cage.confine.observer_program import CONNECT, FLOODED, MAX_OBSERVATIONS
from paddock.cage.linux import is_host_root
from paddock.cage.network.egress_proxy import CageNetwork
from paddock.cage.network.relay import NetworkDenial
from paddock.cage.observe.observation import FileAttempt, FileUse, NetworkAttempt, Observations
from paddock.cage.plan.network_plan import DNS_ADDRESS
from paddock.cage.spec import NOBODY
from paddock.cage.warden.client import CagedProcess
from paddock.net.egress import NOT_GRANTED

_PROGRAM = Path(observer_program.__file__)
_END_TIMEOUT_S = 5.0
_MAX_DENIALS = 1000


class CageObserver:
    """The observer of one cage. Made by `observe`."""

    def __init__(self, listener: int, end_cage: Callable[[], object]) -> None:
        as_nobody = [str(NOBODY)] if is_host_root() else []
        self._end_cage = end_cage
        self._lines: list[tuple[str, str]] = []
        self._denials: dict[NetworkAttempt, None] = {}
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, "-I", "-S", str(_PROGRAM), str(listener), *as_nobody],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env={},
            cwd="/",
            pass_fds=[listener],
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="paddock-observer", daemon=True)
        self._reader.start()

    def note_denial(self, denial: NetworkDenial) -> None:
        """Note a connection or a name that the egress proxy refused."""
        if denial.reason == NOT_GRANTED and len(self._denials) < _MAX_DENIALS:
            self._denials[NetworkAttempt(denial.host, denial.port)] = None

    async def finish(self) -> Observations:
        """Wait for the observer, whose cage has ended, and return what it saw."""
        await asyncio.to_thread(self._reader.join, _END_TIMEOUT_S)
        return self._collect()

    def close(self) -> None:
        """End the observer. A cage that is still there cannot name a file any more."""
        self._process.kill()
        self._process.wait()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as stream:
            for line in stream:
                access, subject = cast("list[str]", json.loads(line))
                if access == FLOODED or len(self._lines) > MAX_OBSERVATIONS:
                    self._lines.append((FLOODED, ""))
                    self._end_cage()
                    return
                self._lines.append((access, subject))

    def _collect(self) -> Observations:
        lines = list(self._lines)
        files = [FileAttempt(cast("FileUse", use), path) for use, path in lines if use not in (CONNECT, FLOODED)]
        addresses = [subject.split() for use, subject in lines if use == CONNECT]
        return Observations(
            tuple(files),
            tuple(NetworkAttempt(host, int(port)) for host, port in addresses if _is_loopback(host)),
            tuple(self._denials),
            any(use == FLOODED for use, _ in lines),
        )


def _is_loopback(host: str) -> bool:
    return (host.startswith("127.") and host != DNS_ADDRESS) or host == "::1"


@asynccontextmanager
async def observe(process: CagedProcess, cage_id: str, network: CageNetwork | None) -> AsyncGenerator[CageObserver]:
    """Observe a process of a learning cage, which makes no call that names a file before this.

    Args:
        process: The process, just launched.
        cage_id: The id of its cage.
        network: The network of the cages.
    """
    listener = process.take_listener()
    assert listener is not None, "only a learning cage can be observed"
    loop = asyncio.get_running_loop()
    try:
        observer = CageObserver(listener, lambda: loop.call_soon_threadsafe(process.kill))
    finally:
        os.close(listener)
    if network is not None:
        network.watch_denials(cage_id, observer.note_denial)
    try:
        yield observer
    finally:
        with CancelScope(shield=True), contextlib.suppress(OSError):
            await asyncio.to_thread(observer.close)
