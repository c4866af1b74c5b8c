"""Building an environment from its lock, in a staging directory: complete and checked before anything else sees it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import HostError, PluginError
from paddock.core.printable import printable
from paddock.plugins.environments.lock import Ecosystem, Lock, normalize_name
from paddock.plugins.environments.npm import Npm
from paddock.plugins.environments.npm_lock import npm_programs
from paddock.plugins.environments.pip import Pip
from paddock.plugins.environments.python_env import (
    VENV_PYTHON,
    host_interpreter,
    installed_programs,
    isolated_command,
    launcher_script,
    make_virtualenv,
)
from paddock.plugins.environments.runner import PackageClient
from paddock.plugins.package.tree import PackageTree, TreeFile


def check_package_files(root: Path, taken: Collection[str] = ()) -> None:
    """Refuse what is neither a directory nor a file of its own, and whatever stands at a path that is `taken`.

    Raises:
        PluginError: there is such a thing.
    """
    for path in (Path(one) for one in taken):
        for step in (path, *path.parents):
            if os.path.lexists(root / step) and (step == path or not (root / step).is_dir()):
                raise _forbidden_file_error(str(step), "which belongs to the environment itself")
    for directory, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(directory, name)
            found = path.lstat()
            # A second name of a file is a link, too: what is done to one is done to the other.
            if not stat.S_ISDIR(found.st_mode) and not (stat.S_ISREG(found.st_mode) and found.st_nlink == 1):
                raise _forbidden_file_error(str(path.relative_to(root)), "which is a link or no file at all")


def _forbidden_file_error(path: str, why: str) -> PluginError:
    return PluginError(
        f"a package brings {printable(path, 200)}, {why}",
        code="environment.strange_file",
        hint="nothing was installed and nothing of it ran; do not trust it before its author has explained that",
    )


LAUNCHER_DIRECTORY = "programs"
"""The directory of the scripts that start a Python environment's programs."""


@dataclass(frozen=True, slots=True)
class BuiltEnvironment:
    """An environment in staging: all its files, what they add up to, and the script of each program in it."""

    root: Path
    lock: Lock
    digest: str
    programs: dict[str, str]


@contextmanager
def build_environment(lock: Lock, client: PackageClient, place: Path) -> Generator[BuiltEnvironment, None, None]:
    """The environment of a lock, below the client's workspace, for as long as the block runs. `place` is where it will
    stand.

    Raises:
        PluginError: a file has another hash than the lock says, or a package brings one that none may bring.
        Unreachable: the registry cannot be reached.
    """
    root = client.workspace / "environment"
    try:
        if lock.ecosystem is Ecosystem.PYTHON:
            programs = _build_python(lock, client, root, place)
        else:
            programs = _build_npm(lock, client, root)
        _make_files_read_only(root)
        digest = scan_environment(root).digest
    except OSError as error:
        raise HostError(
            f"cannot write an environment: {error.strerror}",
            code="staging.disk",
            hint="check free space and permissions (paddock doctor)",
        ) from error
    yield BuiltEnvironment(root, lock, digest, programs)


def scan_environment(root: Path) -> PackageTree:
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
    return PackageTree(tuple(files))


def _build_python(lock: Lock, client: PackageClient, root: Path, place: Path) -> dict[str, str]:
    Pip(client, root).install(lock)
    check_package_files(root, taken=(VENV_PYTHON, "pyvenv.cfg", LAUNCHER_DIRECTORY))
    # What pip wrote there starts the interpreter that pip ran on. Ours start the one they are run by.
    shutil.rmtree(root / "bin", ignore_errors=True)
    make_virtualenv(root, host_interpreter())
    ranks = {normalize_name(pinned.name): rank for rank, pinned in enumerate(lock.packages)}
    programs = installed_programs(root, ranks)
    folder = root / LAUNCHER_DIRECTORY
    folder.mkdir()
    for name, target in programs.items():
        # Without a suffix: its directory is searched for modules first, and none may be called like a script.
        (folder / name).write_text(launcher_script(target), encoding="utf-8")
    _compile_modules(client, root, place)
    return {name: f"{LAUNCHER_DIRECTORY}/{name}" for name in programs}


def _compile_modules(client: PackageClient, root: Path, place: Path) -> None:
    """Compile every module, so that a cage, which cannot write here, starts it at once.

    By hash and unchecked: whether a source changed is told by the digest of the whole, not file by file at each start.
    """
    options = ("-q", "-q", "--invalidation-mode", "unchecked-hash", "-s", str(root), "-p", str(place))
    # A module that does not compile (templates, tests of other versions) is none that anybody imports.
    client.run("compiling", [*isolated_command(host_interpreter()), "-m", "compileall", *options, str(root / "lib")])


def _build_npm(lock: Lock, client: PackageClient, root: Path) -> dict[str, str]:
    root.mkdir()
    Npm(client, root).install(lock)
    check_package_files(root)
    (root / "node_modules" / ".package-lock.json").unlink(missing_ok=True)  # npm's notes, with times in them
    return {name: script for name, script in npm_programs(lock).items() if (root / script).is_file()}


def _make_files_read_only(root: Path) -> None:
    """Readable by everybody, writable by nobody. Directories follow in their place: a closed one cannot be moved."""
    for directory, _, names in os.walk(root):
        Path(directory).chmod(0o755)
        for name in names:
            path = Path(directory, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                path.chmod(0o555 if mode & 0o111 else 0o444)


def completion_record(environment: BuiltEnvironment, fingerprint: str) -> str:
    """What is written down about an environment once it is in its place."""
    value = {
        "ecosystem": environment.lock.ecosystem.value,
        "lock": environment.lock.digest,
        "digest": environment.digest,
        "fingerprint": fingerprint,
        "programs": environment.programs,
        "interpreter": str(host_interpreter().path) if environment.lock.ecosystem is Ecosystem.PYTHON else "",
    }
    return json.dumps(value, indent=1, sort_keys=True) + "\n"
