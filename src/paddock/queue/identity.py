"""The name of this home among all that share a database: made once, and kept in a file of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError
from paddock.core.ids import new_id
from paddock.store.durable import sync_directory

_NODE = re.compile(rb"node_[0-9a-z]{26}\n?")


def node_file(state: Path) -> Path:
    return state / "node"


def node_id(state: Path, clock: Clock, random: Random) -> str:
    """The name of this home, made when it has none. Of two that make it at once, both get the one that was first.

    Raises:
        HostError: `node.id`, when it cannot be read or made, or others may change it.
    """
    file = node_file(state)
    try:
        if not file.exists():
            _make(file, new_id("node", clock, random))
        with file.open("rb") as opened:
            mode, content = os.fstat(opened.fileno()).st_mode, opened.read(64)
    except OSError as error:
        raise _unusable(file, error.strerror or str(error), f"ls -l {file.parent}") from error
    if mode & 0o077:
        raise _unusable(file, "others can reach it", f"chmod 600 {file}")
    if not _NODE.fullmatch(content):
        raise _unusable(file, "it holds something else", f"rm {file}   # this home is then another node")
    return content.decode().strip()


def _make(file: Path, name: str) -> None:
    draft = file.with_name(f"{file.name}-{name}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as opened:
            opened.write(f"{name}\n".encode())
            opened.flush()
            os.fsync(opened.fileno())
        try:
            os.link(draft, file)  # unlike a rename, it never takes the place of one that is there
        except FileExistsError:
            return
        sync_directory(file.parent)
    finally:
        draft.unlink(missing_ok=True)


def _unusable(file: Path, why: str, hint: str) -> HostError:
    return HostError(f"the name of this node in {file} cannot be used: {why}", code="node.id", hint=hint)
