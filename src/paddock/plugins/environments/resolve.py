"""Resolves a package name into metadata, programs and a lock, before anyone has consented to anything.

Registries are queried, and one wheel may be fetched to read its programs. No code of any package runs.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct

from paddock.cage.bounded_process import run_bounded
from paddock.core.errors import HostError, OperatorError, PaddockError, Problem
from paddock.core.printable import printable
from paddock.core.semver import Constraint, Version
from paddock.manifest.registry_package import canonical_python_name
from paddock.plugins.environments.files import check_package_files
from paddock.plugins.environments.lock import Lock, pinned_files, write_python_lock
from paddock.plugins.environments.metadata import PackageMetadata, npm_metadata, python_metadata
from paddock.plugins.environments.npm import Npm
from paddock.plugins.environments.npm_lock import npm_programs, packages_with_scripts
from paddock.plugins.environments.package_client import PackageClient
from paddock.plugins.environments.python_env import read_metadata, unpacked_programs
from paddock.plugins.environments.uv import Uv, UvResolution
from paddock.plugins.package.source import PackageSource, SourceKind


class PackageResolution(Struct, frozen=True):
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
    return _build_python_lock(Uv(client).resolve(requirements), "")


def _resolve_python(source: PackageSource, client: PackageClient) -> PackageResolution:
    uv = Uv(client)
    resolution = uv.resolve([source.location + (source.ref or ""), *source.constraints])
    lock = _build_python_lock(resolution, source.location.partition("[")[0])
    folder = client.workspace / "wheel"
    uv.unpack(pinned_files(lock)[0], folder)
    check_package_files(folder)
    package = lock.packages[0]
    facts = python_metadata(read_metadata(folder, package.name), yanked=package.name in resolution.yanked)
    return PackageResolution(facts, tuple(unpacked_programs(folder)), lock, facts.warnings)


def _build_python_lock(resolution: UvResolution, requested: str) -> Lock:
    # A fixed order, so that equal packages give an equal lock; the requested one comes first.
    requested = canonical_python_name(requested)
    names = {file: canonical_python_name(file.package.name) for file in resolution.files}
    return write_python_lock(sorted(resolution.files, key=lambda file: (names[file] != requested, names[file])))


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
