"""Runs pip to resolve packages, to inspect one wheel, and to install exactly what is locked. It never builds
anything."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any

from paddock.cage.bounded_process import BoundedRun
from paddock.core.errors import HostError, NotFound, OperatorError, PaddockError, PluginError, Unreachable
from paddock.core.printable import printable
from paddock.plugins.environments.lock import Lock, direct_requirements
from paddock.plugins.environments.package_client import PackageClient, error_lines
from paddock.plugins.environments.pip_no_subprocess import SUBPROCESS_REFUSED
from paddock.plugins.environments.python_env import host_interpreter, isolated_command, pip_directory

_PIP_SCRIPT = Path(__file__).with_name("pip_no_subprocess.py")
_PIP_OPTIONS = ("--disable-pip-version-check", "--no-input", "--no-color")
_WHEELS_ONLY = ("--only-binary", ":all:", "--progress-bar=off")


@dataclass(frozen=True, slots=True)
class Pip:
    """pip for the directory of one environment. It runs on our interpreter, isolated from the environment's
    packages."""

    client: PackageClient
    root: Path

    def resolve(self, requirements: Sequence[str]) -> list[dict[str, Any]]:
        """Return pip's dry-run report: an entry for each package that would be installed.

        Raises:
            PaddockError: it cannot be resolved; see `classify_pip_failure`.
        """
        report = self.client.workspace / "report.json"
        options = ("--dry-run", "--ignore-installed", "--report", str(report), *_WHEELS_ONLY)
        result = self._run("looking for packages", "install", *options, "--", *requirements)
        if result.status != 0:
            raise self._explain_failure(result, requirements[0])
        try:
            return json.loads(report.read_text(encoding="utf-8"))["install"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise HostError("pip's report cannot be read", code="environment.client_failed") from error

    def download_wheel(self, lock: Lock) -> Path:
        """Download the wheel of the requested package, the first of a lock. It is only inspected."""
        folder = self.client.workspace / "wheel"
        folder.mkdir()
        by_url, by_name = direct_requirements(lock)[0], lock.text.splitlines()[0]
        result = self._download(by_url, folder)
        if result.status != 0 and by_url != by_name:
            result = self._download(by_name, folder)
        wheels = sorted(folder.glob("*.whl"))
        if result.status != 0 or not wheels:
            raise self._explain_failure(result, lock.packages[0].name)
        return wheels[0]

    def _download(self, pinned: str, folder: Path) -> BoundedRun:
        lock_file = self.client.workspace / "one.lock"
        lock_file.write_text(pinned + "\n", encoding="utf-8")
        options = ("--quiet", "--no-deps", "--require-hashes", *_WHEELS_ONLY, "-d", str(folder), "-r", str(lock_file))
        return self._run("looking into the package", "download", *options)

    def install(self, lock: Lock) -> None:
        """Install what the lock pins, and nothing else.

        Raises:
            PaddockError: it failed; a file with another hash is rejected.
        """
        step = f"installing {len(lock.packages)} Python packages"
        by_url = "\n".join((*direct_requirements(lock), ""))
        result = self._install(step, by_url)
        if result.status != 0 and by_url != lock.text:
            # For instance a URL that needs a password, which pip's report leaves out.
            shutil.rmtree(self.root, ignore_errors=True)
            result = self._install(step, lock.text)
        if result.status != 0:
            raise self._explain_failure(result, lock.packages[0].name)
        _forget_urls(self.root)

    def _install(self, step: str, requirements: str) -> BoundedRun:
        lock_file = self.client.workspace / "requirements.lock"
        lock_file.write_text(requirements, encoding="utf-8")
        options = ("--no-deps", "--require-hashes", "--no-compile", "--no-warn-script-location", *_WHEELS_ONLY)
        return self._run(step, "install", *options, "-r", str(lock_file))

    def _explain_failure(self, result: BoundedRun, requirement: str) -> Exception:
        failure = classify_pip_failure(result.text, error_lines(result), requirement)
        if failure.kind is not PipFailureKind.NO_MATCHING_PACKAGE:
            return failure.error()
        # No wheel fits. Does the index have the package at all? Listing its versions builds nothing, and only with
        # verbose output does pip distinguish an unreachable index from an unknown package.
        listing = self._run("looking for the reason", "index", "versions", "-vv", "--", failure.name)
        return failure.after_listing(listing.status == 0, listing.text).error()

    def _run(self, step: str, command: str, *arguments: str) -> BoundedRun:
        isolated_pip = [
            *isolated_command(host_interpreter()),
            str(_PIP_SCRIPT),
            str(pip_directory()),
            str(self.root),
            command,
        ]
        return self.client.run(step, [*isolated_pip, *_PIP_OPTIONS, *arguments])


def _forget_urls(root: Path) -> None:
    """Remove pip's notes of URLs, so that equal locks make equal environments."""
    for note in root.glob("lib/python*/site-packages/*.dist-info/direct_url.json"):
        note.unlink()
        record = note.with_name("RECORD")
        lines = record.read_bytes().splitlines(keepends=True)
        record.write_bytes(b"".join(line for line in lines if b"direct_url.json," not in line))


_NO_MATCH = re.compile(r"No matching distribution found for ([A-Za-z0-9][A-Za-z0-9._-]*)(\S*)")
_AVAILABLE_VERSIONS = re.compile(r"\(from versions: ([^)\n]*)\)")
_REQUIRES_PYTHON = re.compile(r"Requires-Python ([^;\n]+)")
_NETWORK_ERRORS = (
    "connection broken by",
    "Failed to establish a new connection",
    "Connection refused",
    "Temporary failure in name resolution",
    "Name or service not known",
    "Read timed out",
    "Network is unreachable",
    ": connection error:",
    "Max retries exceeded",
    "SSLError",
)


class PipFailureKind(Enum):
    """The kinds of failure that a person can act on."""

    NO_MATCHING_PACKAGE = auto()  # the package is unknown, or has no wheel for this machine
    NO_SUCH_VERSION = auto()
    PYTHON_MISMATCH = auto()
    SOURCE_ONLY = auto()
    DEPENDENCY_CONFLICT = auto()
    HASH_MISMATCH = auto()
    NETWORK = auto()
    UNKNOWN = auto()


@dataclass(frozen=True, slots=True)
class PipFailure:
    """One failure: of which package, and pip's message."""

    kind: PipFailureKind
    name: str
    message: str
    required: str = ""
    available: str = ""

    def after_listing(self, known: bool, output: str) -> PipFailure:
        """Refine the failure after its versions were listed: `known` if the index has any, of whatever kind."""
        if known:
            return replace(self, kind=PipFailureKind.SOURCE_ONLY)
        return replace(self, kind=PipFailureKind.NETWORK) if _is_network_failure(output) else self

    def error(self) -> PaddockError:
        details = {"package": self.name, "said": self.message}
        match self.kind:
            case PipFailureKind.NO_MATCHING_PACKAGE:
                return NotFound(
                    f"there is no Python package {self.name}",
                    code="environment.package_not_found",
                    hint="is the name spelt right, and does pip look at the right index?",
                    details=details,
                )
            case PipFailureKind.NO_SUCH_VERSION:
                return NotFound(
                    f"{self.name} has no version {self.required} that can be installed here",
                    code="environment.version_not_found",
                    hint=f"there is: {self.available}",
                    details=details,
                )
            case PipFailureKind.PYTHON_MISMATCH:
                return OperatorError(
                    f"{self.name} needs another Python than the one Paddock runs on ({self.required})",
                    code="environment.other_python",
                    hint="ask for an older version of it, or run Paddock on a newer Python",
                    details=details,
                )
            case PipFailureKind.SOURCE_ONLY:
                return OperatorError(
                    f"{self.name} is offered as source only, and building it would run its code before you agreed",
                    code="environment.source_only",
                    hint="build it yourself where you trust it (pip wheel), and let pip find the wheel (find-links)",
                    details=details,
                )
            case PipFailureKind.DEPENDENCY_CONFLICT:
                return OperatorError(
                    f"what {self.name} needs contradicts itself: {self.message}",
                    code="environment.contradiction",
                    hint="ask for another version of it, or leave out a --with",
                    details=details,
                )
            case PipFailureKind.HASH_MISMATCH:
                return PluginError(
                    "a package is not the file that you consented to: its hash is another",
                    code="environment.hash_mismatch",
                    hint="nothing was installed; if the change is honest, install again to be asked again",
                    details=details,
                )
            case PipFailureKind.NETWORK:
                return Unreachable(
                    f"the Python package index cannot be reached: {self.message}",
                    code="environment.unreachable",
                    hint="look at the network and at pip's settings (pip config list)",
                    details=details,
                )
            case _:
                return Unreachable(
                    f"pip failed for {self.name}: {self.message}", code="environment.client_failed", details=details
                )


def classify_pip_failure(output: str, message: str, requirement: str) -> PipFailure:
    """Classify a failure, from pip's whole output and the lines worth showing."""
    name = printable(re.split(r"[=<>!~\[ ]", requirement, maxsplit=1)[0])
    if "DO NOT MATCH THE HASHES" in output:
        return PipFailure(PipFailureKind.HASH_MISMATCH, name, message)
    if SUBPROCESS_REFUSED in output:
        return PipFailure(PipFailureKind.SOURCE_ONLY, _package_being_built(output) or name, message)
    match = _NO_MATCH.search(output)
    if match is not None and not _is_network_failure(output):
        return _no_match_failure(match[1], match[2], output, message)
    if _is_network_failure(output):
        return PipFailure(PipFailureKind.NETWORK, name, message)
    if "ResolutionImpossible" in output or "conflicting dependencies" in output:
        return PipFailure(PipFailureKind.DEPENDENCY_CONFLICT, name, message)
    return PipFailure(PipFailureKind.UNKNOWN, name, message)


def _no_match_failure(name: str, version: str, output: str, message: str) -> PipFailure:
    match = _AVAILABLE_VERSIONS.search(output)
    versions = [one.strip() for one in match[1].split(",")] if match and match[1] != "none" else []
    python_requirements = _REQUIRES_PYTHON.findall(output)
    if versions:
        listed = printable(", ".join(versions[-8:]), 200)
        return PipFailure(PipFailureKind.NO_SUCH_VERSION, name, message, printable(version.lstrip("="), 60), listed)
    if python_requirements:
        return PipFailure(
            PipFailureKind.PYTHON_MISMATCH, name, message, printable(f"it wants {python_requirements[-1].strip()}", 80)
        )
    return PipFailure(PipFailureKind.NO_MATCHING_PACKAGE, name, message)


def _is_network_failure(output: str) -> bool:
    return any(sign in output for sign in _NETWORK_ERRORS)


def _package_being_built(output: str) -> str | None:
    """Return the package that pip was about to build: the last that it began to collect."""
    collected = re.findall(r"^Collecting ([A-Za-z0-9][A-Za-z0-9._-]*)", output, re.MULTILINE)
    return collected[-1] if collected else None
