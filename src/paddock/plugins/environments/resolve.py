"""Resolves a package name into metadata, programs and a lock, before anyone has consented to anything.

Registries are queried, and one wheel may be fetched to read its programs. No code of any package runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

from paddock.cage.bounded_process import run_bounded
from paddock.core.errors import HostError, OperatorError, PaddockError, Problem
from paddock.core.printable import printable
from paddock.core.semver import Constraint, Version
from paddock.manifest.registry_package import canonical_python_name
from paddock.plugins.environments.lock import Lock, PinnedPackage, write_python_lock
from paddock.plugins.environments.metadata import PackageMetadata, npm_metadata, python_metadata
from paddock.plugins.environments.npm import Npm
from paddock.plugins.environments.npm_lock import npm_programs, packages_with_scripts
from paddock.plugins.environments.package_client import PackageClient
from paddock.plugins.environments.pip import Pip
from paddock.plugins.environments.python_env import wheel_programs
from paddock.plugins.package.source import PackageSource, SourceKind


@dataclass(frozen=True, slots=True)
class PackageResolution:
    """A package as its registry has it, locked with all its dependencies."""

    facts: PackageMetadata
    programs: tuple[str, ...]
    lock: Lock
    notes: tuple[str, ...]  # warnings for the person before they consent

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return tuple(Problem("package", text, code="package_warning") for text in self.notes)


def resolve_from_index(source: PackageSource, client: PackageClient) -> PackageResolution:
    """Lock a package with all its dependencies.

    Raises:
        NotFound: there is no such package, or not that version.
        Unreachable: the registry cannot be reached.
        OperatorError: it cannot be installed without running its code, or not here; the hint says what to do.
    """
    if source.kind is SourceKind.PYPI:
        return _resolve_python(source, client)
    if source.kind is SourceKind.NPM:
        return _resolve_npm(source, client)
    raise HostError(f"{source.kind} is not a registry", code="environment.client_failed")


def lock_requirements(requirements: Sequence[str], client: PackageClient) -> Lock:
    """Build the lock for the requirements of a Python plugin."""
    entries = Pip(client, client.workspace / "resolving").resolve(requirements)
    return _build_python_lock(entries, "")


def _resolve_python(source: PackageSource, client: PackageClient) -> PackageResolution:
    pip = Pip(client, client.workspace / "resolving")
    entries = pip.resolve([source.location + (source.ref or ""), *source.constraints])
    name = source.location.partition("[")[0]
    lock = _build_python_lock(entries, name)
    requested = canonical_python_name(name)
    entry = next(one for one in entries if canonical_python_name(one["metadata"]["name"]) == requested)
    facts = python_metadata(entry)
    programs = wheel_programs(pip.download_wheel(lock))
    return PackageResolution(facts, tuple(programs), lock, facts.warnings)


def _build_python_lock(entries: Sequence[Mapping[str, Any]], requested: str) -> Lock:
    pins: list[tuple[PinnedPackage, str]] = []
    urls: dict[str, str] = {}
    for entry in entries:
        try:
            pinned = PinnedPackage(entry["metadata"]["name"], entry["metadata"]["version"])
            sha256 = entry["download_info"]["archive_info"]["hashes"]["sha256"]
        except (KeyError, TypeError) as error:
            raise OperatorError(
                "a package has no hash, so it cannot be pinned",
                code="environment.not_pinned",
                hint="it comes from a repository or a directory; install that as a plugin of its own",
            ) from error
        if entry.get("is_direct"):
            raise OperatorError(
                f"{printable(str(pinned.name))} would come from an address of its own, not from the index",
                code="environment.elsewhere",
                hint="ask the author for a version that needs only packages of the index",
            )
        pins.append((pinned, sha256))
        urls[pinned.name] = str(entry["download_info"].get("url", ""))
    # A fixed order, so that equal packages give an equal lock; the requested one comes first.
    requested = canonical_python_name(requested)
    names = {pinned.name: canonical_python_name(pinned.name) for pinned, _ in pins}
    pins.sort(key=lambda one: (names[one[0].name] != requested, names[one[0].name]))
    return replace(write_python_lock(pins), urls=urls)


def _resolve_npm(source: PackageSource, client: PackageClient) -> PackageResolution:
    folder = client.workspace / "resolving"
    folder.mkdir()
    npm = Npm(client, folder)
    lock = npm.resolve(source.location, source.ref)
    version = lock.packages[0].version
    view = npm.view(source.location, version)
    _check_node_version(source.location, view, client)
    facts = npm_metadata(view, source.location, version)
    notes = list(facts.warnings)
    if scripts := packages_with_scripts(lock):
        names = printable(", ".join(scripts), 200)
        notes.append(f"wants to run programs while it is installed, which Paddock does not let it: {names}")
    return PackageResolution(facts, tuple(npm_programs(lock)), lock, tuple(notes))


def _check_node_version(name: str, view: Mapping[str, Any], client: PackageClient) -> None:
    """Reject before the install a server that would crash at every start because of its Node.js version."""
    engines = view.get("engines")
    required_range = cast("dict[str, Any]", engines).get("node") if isinstance(engines, dict) else None
    installed = _node_version(client)
    if not isinstance(required_range, str) or installed is None:
        return
    try:
        fits = Constraint.parse(required_range).allows(installed)
    except OperatorError:
        return  # npm accepts ranges that we cannot parse
    if not fits:
        raise OperatorError(
            f"{name} needs Node.js {printable(required_range, 80)}, and this machine has {installed}",
            code="environment.other_node",
            hint="install that Node.js, or ask for an older version of the package",
        )


def _node_version(client: PackageClient) -> Version | None:
    node = shutil.which("node", path=client.environ.get("PATH"))
    if node is None:
        return None
    with suppress(OSError, PaddockError):
        return Version.parse(run_bounded([node, "--version"], client.environ).first_line.removeprefix("v"))
    return None
