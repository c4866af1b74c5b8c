"""Builds an environment from its lock in a staging directory: complete and checked before anything else sees it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import HostError
from paddock.manifest.registry_package import canonical_python_name
from paddock.plugins.environments.files import check_package_files, make_files_read_only, scan_environment
from paddock.plugins.environments.lock import Ecosystem, Lock
from paddock.plugins.environments.npm import Npm
from paddock.plugins.environments.npm_lock import npm_programs
from paddock.plugins.environments.package_client import PackageClient
from paddock.plugins.environments.python_env import (
    VENV_PYTHON,
    host_interpreter,
    installed_programs,
    isolated_command,
    launcher_script,
    make_virtualenv,
)
from paddock.plugins.environments.uv import Uv

_COMPILE_SCRIPT = Path(__file__).with_name("compile_modules.py")
LAUNCHER_DIRECTORY = "programs"
"""The directory of the scripts that start a Python environment's programs."""


class BuiltEnvironment(Struct, frozen=True):
    """An environment in staging: its files, their digest, and the script of each program."""

    root: Path
    lock: Lock
    digest: str
    programs: dict[str, str]


@contextmanager
def build_environment(lock: Lock, client: PackageClient, final_path: Path) -> Generator[BuiltEnvironment, None, None]:
    """Build the environment of a lock below the client's workspace, for as long as the block runs. `final_path` is
    where it will stand.

    Raises:
        PluginError: a file has another hash than the lock says, or a package brings a forbidden file.
        Unreachable: the registry cannot be reached.
    """
    root = client.workspace / "environment"
    try:
        if lock.ecosystem is Ecosystem.PYTHON:
            programs = _build_python(lock, client, root, final_path)
        else:
            programs = _build_npm(lock, client, root)
        make_files_read_only(root)
        digest = scan_environment(root).digest
    except OSError as error:
        raise HostError(
            f"cannot write an environment: {error.strerror}",
            code="staging.disk",
            hint="check free space and permissions",
            action=Action.of("host.check"),
        ) from error
    yield BuiltEnvironment(root, lock, digest, programs)


def _build_python(lock: Lock, client: PackageClient, root: Path, final_path: Path) -> dict[str, str]:
    Uv(client).install(lock, root)
    check_package_files(root, reserved=(VENV_PYTHON, "pyvenv.cfg", LAUNCHER_DIRECTORY))
    # Scripts by uv start the interpreter that it was told of. Ours start the one they are run by.
    shutil.rmtree(root / "bin", ignore_errors=True)
    make_virtualenv(root, host_interpreter())
    ranks = {canonical_python_name(pinned.name): rank for rank, pinned in enumerate(lock.packages)}
    programs = installed_programs(root, ranks)
    folder = root / LAUNCHER_DIRECTORY
    folder.mkdir()
    for name, target in programs.items():
        # Without a suffix: its directory is searched for modules first, and no module may have a script's name.
        (folder / name).write_text(launcher_script(target), encoding="utf-8")
    _compile_modules(client, root, final_path)
    return {name: f"{LAUNCHER_DIRECTORY}/{name}" for name in programs}


def _compile_modules(client: PackageClient, root: Path, final_path: Path) -> None:
    """Compile every module, so that a cage, which cannot write here, starts quickly.

    With unchecked hashes: changes are detected by the digest of the whole, not file by file at each start.
    """
    # Warnings about a package's source are for its author.
    command = [*isolated_command(host_interpreter()), "-W", "ignore", str(_COMPILE_SCRIPT)]
    client.run("compiling", [*command, str(root / "lib"), str(final_path / "lib")])


def _build_npm(lock: Lock, client: PackageClient, root: Path) -> dict[str, str]:
    root.mkdir()
    Npm(client, root).install(lock)
    check_package_files(root)
    (root / "node_modules" / ".package-lock.json").unlink(missing_ok=True)  # npm's own record; contains timestamps
    return {name: script for name, script in npm_programs(lock).items() if (root / script).is_file()}


def completion_record(environment: BuiltEnvironment, fingerprint: str) -> str:
    """Return the record that is written once an environment is in place."""
    value = {
        "ecosystem": environment.lock.ecosystem.value,
        "lock": environment.lock.digest,
        "digest": environment.digest,
        "fingerprint": fingerprint,
        "programs": environment.programs,
        "interpreter": str(host_interpreter().path) if environment.lock.ecosystem is Ecosystem.PYTHON else "",
    }
    return record_text(value)


def record_text(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=1, sort_keys=True) + "\n"
