"""Runs uv to resolve packages, to look into one wheel, and to install exactly what is locked. It builds nothing."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from paddock.cage.bounded_process import BoundedRun
from paddock.core.errors import HostError, OperatorError
from paddock.core.printable import printable
from paddock.plugins.environments.lock import Lock, PinnedFile, PinnedPackage, pinned_files
from paddock.plugins.environments.package_client import PackageClient
from paddock.plugins.environments.pip_settings import read_pip_settings
from paddock.plugins.environments.python_env import host_interpreter, uv_program
from paddock.plugins.environments.uv_failure import UvFailure, UvFailureKind, classify_uv_failure
from paddock.plugins.environments.wheel_choice import best_wheel

_OPTIONS = ("--no-config", "--no-progress", "--color=never", "--no-python-downloads", "--no-build")
_INSTALL_OPTIONS = ("--no-deps", "--require-hashes", "--link-mode=copy", "--preview-features=pylock")
# Certificates of the system, as pip has it; the setting had another name once. No PATH: uv runs git for a package of a
# repository, and asks other programs for passwords.
_VARIABLES: Mapping[str, str] = {"UV_SYSTEM_CERTS": "1", "UV_NATIVE_TLS": "1", "PATH": ""}
# uv's own values make a person without a network wait for a minute. Settings of theirs win over these.
_RETRY_SETTINGS: Mapping[str, str] = {"UV_HTTP_CONNECT_TIMEOUT": "5", "UV_HTTP_RETRIES": "2"}
_MAX_RESOLUTION_BYTES = 16 * 1024 * 1024


class UvResolution(Struct, frozen=True):
    """The packages that would be installed, each as one file, and those whose authors have withdrawn them."""

    files: tuple[PinnedFile, ...]
    yanked: frozenset[str]


class Uv(Struct, frozen=True):
    """uv for the host's interpreter, with the settings that a person made for pip."""

    client: PackageClient

    def resolve(self, requirements: Sequence[str]) -> UvResolution:
        """Return the one file of each package that fits this machine. Only wheels do.

        Raises:
            PaddockError: it cannot be resolved; see `classify_uv_failure`.
        """
        result, text = self._compile(requirements)
        if result.status != 0:
            failure = classify_uv_failure(result.text, requirements[0])
            raise self._with_newest_version(failure).error()
        try:
            packages: Any = tomllib.loads(text)["packages"]
            files = tuple(_pinned_file(package) for package in packages)
        except (ValueError, KeyError, TypeError) as error:
            raise HostError("uv's resolution cannot be read", code="environment.client_failed") from error
        return UvResolution(files, frozenset(re.findall(r"^warning: `([^`=]+)==[^`]*` is yanked", result.errors, re.M)))

    def unpack(self, file: PinnedFile, folder: Path) -> None:
        """Unpack one wheel to look into it. Nothing of it runs."""
        result = self._install("looking into the package", [file], ("--target", str(folder)))
        if result.status != 0:
            raise classify_uv_failure(result.text, file.package.name).error()

    def install(self, lock: Lock, root: Path) -> None:
        """Install what the lock pins below a directory, and nothing else.

        Raises:
            PaddockError: it failed; a file with another hash is rejected.
        """
        result = self._install(
            f"installing {len(lock.packages)} Python packages", pinned_files(lock), ("--prefix", str(root))
        )
        if result.status != 0:
            raise classify_uv_failure(result.text, lock.packages[0].name).error()
        _remove_notes(root)

    def _compile(self, requirements: Sequence[str]) -> tuple[BoundedRun, str]:
        wanted, found = self.client.workspace / "requirements.in", self.client.workspace / "pylock.toml"
        wanted.write_text("\n".join((*requirements, "")), encoding="utf-8")
        found.unlink(missing_ok=True)  # uv would prefer the versions in it
        options = ("--format=pylock.toml", "--no-header", "--no-annotate", "--output-file", str(found), str(wanted))
        result = self._run("looking for packages", "compile", *options)
        if result.status != 0:
            return result, ""
        with found.open(encoding="utf-8", errors="replace") as opened:
            return result, opened.read(_MAX_RESOLUTION_BYTES)

    def _install(self, step: str, files: Sequence[PinnedFile], where: Sequence[str]) -> BoundedRun:
        """Install files from where the resolver has just found them; look them up by name where that is not known, or
        does not work, for instance at an address that wants a password."""
        folder = Path(where[-1])
        if all(file.url for file in files):
            by_address = self.client.workspace / "pylock.install.toml"
            by_address.write_text(_write_pylock(files), encoding="utf-8")
            result = self._run(step, "install", *_INSTALL_OPTIONS, *where, "-r", str(by_address))
            if result.status == 0 or classify_uv_failure(result.text, "").kind is UvFailureKind.HASH_MISMATCH:
                return result
            shutil.rmtree(folder, ignore_errors=True)
        by_name = self.client.workspace / "requirements.lock"
        by_name.write_text("".join(f"{file.requirement}\n" for file in files), encoding="utf-8")
        return self._run(step, "install", *_INSTALL_OPTIONS, *where, "-r", str(by_name))

    def _with_newest_version(self, failure: UvFailure) -> UvFailure:
        if failure.kind is not UvFailureKind.NO_SUCH_VERSION:
            return failure
        result, text = self._compile([failure.name])
        found = re.search(rf'^name = "{re.escape(failure.name)}"\nversion = "([^"\n]+)"', text, re.M)
        return failure.with_newest(printable(found[1], 60)) if result.status == 0 and found else failure

    def _run(self, step: str, command: str, *arguments: str) -> BoundedRun:
        settings = read_pip_settings(self.client.environ)
        python = ("--python", str(host_interpreter().path))
        cache = {"UV_CACHE_DIR": str(self.client.cache / "uv")}
        variables = {**_VARIABLES, **_RETRY_SETTINGS, **cache, **settings.uv_variables()}
        options = (*_OPTIONS, *settings.uv_options(), *python)
        return self.client.run(step, [str(uv_program()), "pip", command, *options, *arguments], variables)


def _pinned_file(package: Mapping[str, Any]) -> PinnedFile:
    pinned = PinnedPackage(str(package["name"]), str(package.get("version", "")))
    wheels = cast("list[Mapping[str, Any]]", package.get("wheels", []))
    if not wheels:
        raise OperatorError(
            f"{printable(pinned.name)} would come from an address of its own, not from the index",
            code="environment.elsewhere",
            hint="ask the author for a version that needs only packages of the index",
        )
    chosen = best_wheel({_file_name(wheel): wheel for wheel in wheels})
    sha256 = cast("Mapping[str, Any]", chosen.get("hashes", {})).get("sha256")
    if not isinstance(sha256, str):
        raise OperatorError(
            f"{printable(pinned.name)} has no hash, so it cannot be pinned",
            code="environment.not_pinned",
            hint="its index does not say the SHA-256 of its files; ask who runs it",
        )
    return PinnedFile(pinned, (sha256,), str(chosen.get("url", "")))


def _file_name(wheel: Mapping[str, Any]) -> str:
    return str(wheel.get("name") or str(wheel.get("url") or wheel.get("path") or "").rpartition("/")[2])


def _write_pylock(files: Sequence[PinnedFile]) -> str:
    """Return a standard lock file in which each package is one file at one address. Strings of JSON are strings of
    TOML."""
    lines = ['lock-version = "1.0"', 'created-by = "paddock"']
    for file in files:
        hashes = f"{{ sha256 = {json.dumps(file.sha256s[0])} }}"
        lines += [
            "[[packages]]",
            f"name = {json.dumps(file.package.name)}",
            f"version = {json.dumps(file.package.version)}",
            f"wheels = [{{ url = {json.dumps(file.url)}, hashes = {hashes} }}]",
        ]
    return "\n".join((*lines, ""))


def _remove_notes(root: Path) -> None:
    """Remove what uv notes about an installation, so that equal locks make equal environments."""
    (root / ".lock").unlink(missing_ok=True)
    for note in root.glob("lib/python*/site-packages/*.dist-info/uv_cache.json"):
        note.unlink()
        record = note.with_name("RECORD")
        lines = record.read_bytes().splitlines(keepends=True)
        record.write_bytes(b"".join(line for line in lines if b"uv_cache.json," not in line))
