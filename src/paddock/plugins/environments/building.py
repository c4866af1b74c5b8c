"""Building an environment from its lock, in a staging directory: complete and checked before anything else sees it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import HostError
from paddock.plugins.environments.clients import Client
from paddock.plugins.environments.interpreter import PYTHON, make_virtual, quiet_command, this_interpreter
from paddock.plugins.environments.lock import Ecosystem, Lock
from paddock.plugins.environments.npm import Npm
from paddock.plugins.environments.npm_lock import programs as npm_programs
from paddock.plugins.environments.pip import Pip
from paddock.plugins.environments.programs import installed_programs, launcher
from paddock.plugins.environments.python_lock import normal_name
from paddock.plugins.environments.strange_files import refuse_strange_files
from paddock.plugins.tree import Tree, TreeFile

LAUNCHERS = "programs"
"""The directory of the scripts that start a Python environment's programs."""


@dataclass(frozen=True, slots=True)
class Built:
    """An environment in staging: all its files, what they add up to, and the script of each program in it."""

    root: Path
    lock: Lock
    digest: str
    programs: dict[str, str]


@contextmanager
def built(lock: Lock, client: Client, place: Path) -> Generator[Built, None, None]:
    """The environment of a lock, below the client's workspace, for as long as the block runs. `place` is where it will
    stand.

    Raises:
        PluginError: a file has another hash than the lock says, or a package brings one that none may bring.
        Unreachable: the registry cannot be reached.
    """
    root = client.workspace / "environment"
    try:
        if lock.ecosystem is Ecosystem.PYTHON:
            programs = _python(lock, client, root, place)
        else:
            programs = _npm(lock, client, root)
        _settle_files(root)
        digest = environment_tree(root).digest
    except OSError as error:
        raise HostError(
            f"cannot write an environment: {error.strerror}",
            code="staging.disk",
            hint="check free space and permissions (paddock doctor)",
        ) from error
    yield Built(root, lock, digest, programs)


def environment_tree(root: Path) -> Tree:
    """Every file of an environment. A link counts as what it says, not as what is there."""
    files: list[TreeFile] = []
    for directory, _, names in os.walk(root):
        for name in names:
            path = Path(directory, name)
            relative = str(path.relative_to(root))
            found = path.lstat()
            if stat.S_ISLNK(found.st_mode):
                target = hashlib.sha256(b"link:" + os.fsencode(path.readlink())).hexdigest()
                files.append(TreeFile(relative, False, 0, target))
            elif stat.S_ISREG(found.st_mode):
                with path.open("rb") as file:
                    sha256 = hashlib.file_digest(file, "sha256").hexdigest()
                files.append(TreeFile(relative, bool(found.st_mode & 0o111), found.st_size, sha256))
            else:
                raise HostError(f"{relative} is neither a file nor a link", code="environment.damaged")
    return Tree(tuple(files))


def _python(lock: Lock, client: Client, root: Path, place: Path) -> dict[str, str]:
    Pip(client, root).install(lock)
    refuse_strange_files(root, taken=(PYTHON, "pyvenv.cfg", LAUNCHERS))
    # What pip wrote there starts the interpreter that pip ran on. Ours start the one they are run by.
    shutil.rmtree(root / "bin", ignore_errors=True)
    make_virtual(root, this_interpreter())
    ranks = {normal_name(pinned.name): rank for rank, pinned in enumerate(lock.packages)}
    programs = installed_programs(root, ranks)
    folder = root / LAUNCHERS
    folder.mkdir()
    for name, target in programs.items():
        # Without a suffix: its directory is searched for modules first, and none may be called like a script.
        (folder / name).write_text(launcher(target), encoding="utf-8")
    _compile(client, root, place)
    return {name: f"{LAUNCHERS}/{name}" for name in programs}


def _compile(client: Client, root: Path, place: Path) -> None:
    """Compile every module, so that a cage, which cannot write here, starts it at once.

    By hash and unchecked: whether a source changed is told by the digest of the whole, not file by file at each start.
    """
    options = ("-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", str(place))
    # A module that does not compile (templates, tests of other versions) is none that anybody imports.
    client.run("compiling", [*quiet_command(this_interpreter()), "-m", "compileall", *options, str(root / "lib")])


def _npm(lock: Lock, client: Client, root: Path) -> dict[str, str]:
    root.mkdir()
    Npm(client, root).install(lock)
    refuse_strange_files(root)
    (root / "node_modules" / ".package-lock.json").unlink(missing_ok=True)  # npm's notes, with times in them
    return {name: script for name, script in npm_programs(lock).items() if (root / script).is_file()}


def _settle_files(root: Path) -> None:
    """Readable by everybody, writable by nobody. Directories follow in their place: a closed one cannot be moved."""
    for directory, _, names in os.walk(root):
        Path(directory).chmod(0o755)
        for name in names:
            path = Path(directory, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                path.chmod(0o555 if mode & 0o111 else 0o444)


def note_of(environment: Built, fingerprint: str) -> str:
    """What is written down about an environment once it is in its place."""
    value = {
        "ecosystem": environment.lock.ecosystem.value,
        "lock": environment.lock.digest,
        "digest": environment.digest,
        "fingerprint": fingerprint,
        "programs": environment.programs,
        "interpreter": str(this_interpreter().path) if environment.lock.ecosystem is Ecosystem.PYTHON else "",
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
