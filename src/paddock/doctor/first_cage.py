"""Starts one plugin in one real cage, the way the daemon does: by a warden, with every wall, from compiled grants.

Each wall may be fine by itself and a cage impossible all the same; then doctor has to say what the daemon would.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from paddock.cage.launcher import CageUnavailable
from paddock.cage.plan.compile import Surroundings, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.machine import DiskMachine
from paddock.cage.probe import find_bubblewrap
from paddock.cage.spec import CageSpec
from paddock.cage.warden.launching import open_warden
from paddock.doctor.check import Check, Status
from paddock.manifest.read import read_package

_NAME = "cage"
_WHY = "A plugin would be refused like this by the daemon, too."
_SECONDS = 25.0  # a warden gives up sooner; less than what doctor waits for a probe
_MANIFEST = """
paddock: 1
name: doctor
version: 1.0.0
description: Says one word
runtime: {command: [python3, hello.py]}
"""
_HELLO = "caged"


def check_first_cage(environ: Mapping[str, str]) -> Check:
    """Really start a plugin, hear what it says, and see its cage go."""
    path = environ.get("PATH", os.defpath)
    try:
        find_bubblewrap(path)
    except CageUnavailable:
        # Said by its own check, with what to type.
        return Check(_NAME, Status.WARN, "not tried, since bubblewrap cannot build one")
    with tempfile.TemporaryDirectory(prefix="paddock-doctor-") as folder:
        root = Path(folder).resolve()
        root.chmod(0o755)  # as an installed plugin's: a root daemon's cages run as nobody
        try:
            said = asyncio.run(_run(_spec(root), path))
        except CageUnavailable as error:
            return Check(_NAME, Status.FAIL, error.message, _WHY, error.hint, error.error_code)
        except TimeoutError:
            return Check(_NAME, Status.FAIL, f"a plugin said nothing within {_SECONDS:g} s", _WHY, code="cage.silent")
    if said.strip() != _HELLO:
        return Check(_NAME, Status.FAIL, f"a plugin did not run as it should: {said}", _WHY, code="cage.broken")
    return Check(_NAME, Status.OK, "a plugin was started in one, and ended")


def _spec(root: Path) -> CageSpec:
    (root / "paddock.yaml").write_text(_MANIFEST)
    (root / "hello.py").write_text(f"print({_HELLO!r})\n")
    manifest = read_package(root).single()
    return compile_cage(
        cage_id="doctor",
        manifest=manifest,
        root=str(root),
        capabilities=(),
        environment=spawn_environment(manifest, str(root), "info"),
        surroundings=Surroundings(python=sys.executable),
        machine=DiskMachine(),
        # Paddock's own interpreter: another one need not be installed.
        command=(sys.executable, str(root / "hello.py")),
    )


async def _run(spec: CageSpec, path: str) -> str:
    """What the plugin said, or what it complained about when it said nothing."""
    async with asyncio.timeout(_SECONDS), open_warden(path=path) as warden:
        process = await warden.launch(spec)
        try:
            await process.wait()
            # It is gone: everything that it said is in the pipes.
            return (_rest(process.stdout) or _rest(process.stderr)).decode("utf-8", "replace")
        finally:
            for descriptor in (process.stdin, process.stdout, process.stderr):
                os.close(descriptor)


def _rest(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""
