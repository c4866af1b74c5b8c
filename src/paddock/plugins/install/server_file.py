"""Makes a package of a server that is one file: a manifest of ours, the file, and a lock of the packages it needs.

draft     the file is read as data, its packages are locked and unpacked, and none of its code runs
trial     it runs once in a learning cage with nothing granted; see `server_trial.py`
resolved  its manifest asks for what the trial showed that it needs, and a person is asked
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re
import stat
from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from paddock.core.action import Action
from paddock.core.errors import HostError, Invalid, NotFound, OperatorError, PluginError, Problem
from paddock.core.ids import Digest, PluginName
from paddock.core.printable import printable
from paddock.core.semver import Version
from paddock.manifest.capability import Capability, covers, merge_capabilities
from paddock.manifest.model import CommandRuntime, Dialect, Manifest
from paddock.manifest.names import choose_plugin_name
from paddock.manifest.native_writer import to_yaml
from paddock.manifest.read import read_package
from paddock.manifest.server_file.script_metadata import runs_on
from paddock.manifest.server_file.server_file import Language, ServerFile, read_server_file
from paddock.plugins.environments.build import BuiltEnvironment
from paddock.plugins.environments.lock import Lock
from paddock.plugins.environments.metadata import IndexOptions, with_index_options
from paddock.plugins.environments.python_env import host_interpreter
from paddock.plugins.environments.resolve import lock_requirements
from paddock.plugins.environments.store import Environment, find_lock
from paddock.plugins.install.index_package import check_name_owner
from paddock.plugins.install.resolve import ResolvedPackage, build_resolved
from paddock.plugins.install.server_trial import ServerTrial, TrialSubject
from paddock.plugins.package.extract import ProgressCallback
from paddock.plugins.package.rules import MEGABYTE, format_bytes
from paddock.plugins.package.source import PackageSource, SourceKind
from paddock.plugins.package.stage import StagedPackage, open_staging_directory, stage_package
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.node_files import build_missing_environment, open_package_client
from paddock.plugins.store.rows import VersionRow, find_plugin, tree_of, versions_of
from paddock.plugins.store.store import PluginStore
from paddock.plugins.tool_pinning.normalize import normalize_definitions
from paddock.store.database import Transaction

FIRST_VERSION = "0.1.0"
MAX_SERVER_BYTES = 64 * MEGABYTE
_SDK_MODULE = "paddock_sdk"
_MISSING_MODULE = re.compile(r"Python module|Node module|Cannot find package|No module named")


class ServerDraft(Struct, frozen=True):
    """A server file as the package that it becomes, before it was tried.

    Attributes:
        file: The file.
        manifest: Its manifest, without what a trial adds.
        source: Where it came from.
        lock: The packages that it needs, if any.
        built: Their environment, if it was built for this install.
        subject: What is tried.
    """

    file: ServerFile
    manifest: Manifest
    source: PackageSource
    lock: Lock | None
    built: BuiltEnvironment | None
    subject: TrialSubject


@contextmanager
def open_server_draft(
    store: PluginStore,
    source: PackageSource,
    choices: IndexOptions,
    typed: Sequence[Capability],
    progress: ProgressCallback | None,
    recorded_as: PackageSource | None = None,
) -> Generator[ServerDraft, None, None]:
    """Read a server file, and lock and unpack the packages that it needs, for as long as the block runs.

    `choices` are a person's options, now and before; `typed` are the capabilities that they named now. `recorded_as` is
    the source to show and record if the file is read from a temporary place.

    Raises:
        NotFound: the file is gone, or the index has no such package.
        Invalid: it is malformed, or imports what no package provides; carries every mistake.
        Conflict: a plugin from another source has its name.
        PaddockError: its packages cannot be pinned or fetched; says why.
    """
    content = _read_content(Path(source.location))
    source = recorded_as or source
    path = Path(source.location)
    file = read_server_file(path.name, content)
    with ExitStack() as stack:
        lock = _lock_packages(store, file, source, progress)
        built = stack.enter_context(build_missing_environment(store, lock, progress))
        environment = _environment(store, lock, built)
        _check_imports(file, path, environment, source)
        base = Manifest(
            name=_plugin_name(file, path, choices.name, source),
            version=FIRST_VERSION,
            dialect=Dialect.MCP,
            description=file.summary,
        )
        manifest = with_index_options(base, file.command(packages=lock is not None), choices)
        if choices.name is None:
            store.database.read(lambda tx: check_name_owner(tx, manifest, source))
        staged = stack.enter_context(_stage(store, file, manifest, lock))
        subject = TrialSubject(
            _without_prompted_variables(manifest, choices),
            # Not the grants of an installed version: a person consented to these for other code.
            tuple(typed),
            staged.root,
            Digest(staged.tree.digest),
            environment,
        )
        yield ServerDraft(file, manifest, source, lock, built, subject)


@contextmanager
def resolve_server_file(
    store: PluginStore, draft: ServerDraft, trial: ServerTrial
) -> Generator[ResolvedPackage, None, None]:
    """Resolve a server file that was tried, without changing anything yet.

    Raises:
        PluginError: it is not an MCP server, or offers nothing.
        PaddockError: see `resolve_package`.
    """
    _check_is_server(draft, trial)
    capabilities = merge_capabilities(draft.manifest.capabilities, trial.chosen)
    manifest = store.database.read(
        lambda tx: _with_version(tx, replace(draft.manifest, capabilities=capabilities), draft)
    )
    normalized = normalize_definitions(trial.definitions or (), lambda _raw: None)
    listed = tuple((one.kind, one.name, one.text) for one in normalized)
    with _stage(store, draft.file, manifest, draft.lock) as staged:
        result = read_package(staged.root)
        staged = replace(staged, source=replace(staged.source, source=draft.source))
        resolved = build_resolved(store, staged, result.single(), result.warnings, {}, draft.lock, listed)
        # A need that is not ticked may be granted all the same, in an earlier version or by an option.
        known = [one for one in trial.proposals if one.selected or not _is_covered(one.capability, manifest)]
        trial = replace(trial, proposals=tuple(known))
        yield dataclasses.replace(resolved, trial=trial, built=draft.built, server_file=draft.file)


def _is_covered(capability: Capability, manifest: Manifest) -> bool:
    return any(covers(one, capability) for one in manifest.capabilities)


def _read_content(path: Path) -> bytes:
    try:
        # Without waiting: what was a file may be a pipe by now.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise OperatorError(f"{printable(str(path))} is no longer a file", code="source.unreadable")
            content = file.read(MAX_SERVER_BYTES + 1)
    except FileNotFoundError:
        raise NotFound(f"{printable(str(path))} is gone", code="source.not_found", hint="name its new path") from None
    except OSError as error:
        raise OperatorError(
            f"{printable(str(path))} cannot be read: {error.strerror}", code="source.unreadable"
        ) from error
    if len(content) > MAX_SERVER_BYTES:
        problem = Problem("", f"holds more than {format_bytes(MAX_SERVER_BYTES)}", code="package.too_big")
        raise Invalid(f"{printable(path.name)} is too big", [problem], code="package.unsafe")
    return content


def _lock_packages(
    store: PluginStore, file: ServerFile, source: PackageSource, progress: ProgressCallback | None
) -> Lock | None:
    if file.python is None:
        if source.constraints:
            raise OperatorError(
                f"Python packages are for Python files, and {printable(file.name)} is none",
                code="source.unknown",
                hint="leave it out",
            )
        return None
    requirements = [*file.python.requirements, *source.constraints]
    python = file.python.metadata.python if file.python.metadata else ""
    version = host_interpreter().version
    if not runs_on(python, version):
        raise OperatorError(
            f"{printable(file.name)} needs Python {printable(python)}, and this host has {version}",
            code="environment.other_python",
            hint="run Paddock with that Python, or widen requires-python",
        )
    if not requirements:
        return None
    with open_package_client(store, progress) as client:
        return lock_requirements(requirements, client)


def _environment(store: PluginStore, lock: Lock | None, built: BuiltEnvironment | None) -> Environment | None:
    if built is not None:
        programs = {name: built.root / script for name, script in built.programs.items()}
        return Environment(built.lock.ecosystem, built.root, programs)
    environment = store.environments.find_by_lock(lock) if lock is not None else None
    if lock is not None and environment is None:
        raise HostError("the packages were removed meanwhile", code="plugin.changed_meanwhile", hint="try again")
    return environment


def _check_imports(file: ServerFile, path: Path, environment: Environment | None, source: PackageSource) -> None:
    """Check that every module which a Python file imports is provided by its packages.

    Raises:
        Invalid: one is not; carries each of them.
    """
    folders = environment.site_packages if environment is not None else []
    imports = file.python.imports if file.python else dict[str, int]()
    problems: list[Problem] = []
    for module, line in imports.items():
        if any(_provides(folder, module) for folder in folders):
            continue
        if module == _SDK_MODULE:
            hint = "a plugin that uses it has a manifest: install the folder of both"
            problems.append(Problem(file.name, f"imports {module}, which speaks no MCP", hint, "no_server", line))
        elif path.is_absolute() and _provides(path.parent, module):
            hint = "only this one file is installed: put both into a folder with a manifest"
            problems.append(Problem(file.name, f"imports {module}, a module beside it", hint, "module_beside", line))
        else:
            hint = "name its package beside the file, or in a '# /// script' block at the top of the file"
            message = f"imports {module}, which no package provides"
            install = _with_package_action(source)
            problems.append(Problem(file.name, message, hint, "no_package", line, install))
    if problems:
        message = f"{printable(file.name)} imports modules that it would not have"
        raise Invalid(message, problems[:50], code="server.missing_package")


def _provides(folder: Path, module: str) -> bool:
    return (folder / module).is_dir() or (folder / f"{module}.py").is_file() or any(folder.glob(f"{module}.*so"))


def _plugin_name(file: ServerFile, path: Path, chosen: str | None, source: PackageSource) -> PluginName:
    return choose_plugin_name(
        chosen,
        file.plugin_name(path.parent.name),
        source=printable(file.name),
        install=Action.of("plugin.install", source=source.text, name="NAME") if source.text else None,
    )


@contextmanager
def _stage(
    store: PluginStore, file: ServerFile, manifest: Manifest, lock: Lock | None
) -> Generator[StagedPackage, None, None]:
    with open_staging_directory(store.staging) as directory:
        folder = directory / "package"
        folder.mkdir()
        for name, text in written_files(manifest, lock).items():
            (folder / name).write_text(text, encoding="utf-8")
        server = folder / file.packaged_name
        server.write_bytes(file.content)
        server.chmod(0o755 if file.language is Language.PROGRAM else 0o644)
        with stage_package(PackageSource(SourceKind.DIRECTORY, str(folder)), store.staging) as staged:
            yield staged


def written_files(manifest: Manifest, lock: Lock | None) -> dict[str, str]:
    """Return the files of the package that Paddock writes, by name."""
    return {"paddock.yaml": to_yaml(manifest)} | ({lock.ecosystem.lock_file: lock.text} if lock is not None else {})


def _without_prompted_variables(manifest: Manifest, choices: IndexOptions) -> Manifest:
    """Return the manifest for a trial: values that a person sets after the install are not there yet."""
    runtime = manifest.runtime
    assert isinstance(runtime, CommandRuntime)
    env = {name: value for name, value in runtime.env.items() if name not in choices.prompted_variables}
    return replace(manifest, runtime=replace(runtime, env=env), system_config_schema=None)


def _check_is_server(draft: ServerDraft, trial: ServerTrial) -> None:
    """Check that it answered; or that it asks for something which a person may grant, so that it may answer then."""
    name = printable(draft.file.name)
    if trial.definitions is not None:
        if not trial.offers_something:
            raise PluginError(
                f"{name} is an MCP server that offers nothing: no tools, prompts or resources",
                code="server.no_tools",
                hint="declare a tool in it; with FastMCP by @mcp.tool() above a function, before mcp.run()",
            )
        return
    if trial.chosen:
        return
    failure = trial.failure or PluginError("it did not answer")
    package = _with_package_action(draft.source)
    remedies: list[tuple[str, Action | None]] = [
        (
            _missing_module_hint(draft.file, failure.message),
            package if draft.file.python else None,
        ),
        *((one.hint, None) for one in trial.obstacles),
        (failure.hint, failure.action),
        *(
            (f"{one.reason}; if you want that, give it the capability", draft.source.grant_action(str(one.capability)))
            for one in trial.proposals
        ),
        (_run_hint(draft.file), None),
    ]
    hint, action = next(remedy for remedy in remedies if remedy[0])
    raise PluginError(
        f"{name} does not answer as an MCP server: {failure.message}",
        code="server.no_answer",
        hint=hint,
        action=action,
    )


def _missing_module_hint(file: ServerFile, message: str) -> str:
    """Return what to do about a module that was missed only when it was imported; empty if none was."""
    if not _MISSING_MODULE.search(message):
        return ""
    if file.language is Language.NODE:
        return (
            "only this one file is installed: bundle its packages into it, or put it into a folder with a manifest and "
            "its node_modules"
        )
    return "name its package beside the file, or in a '# /// script' block at the top of the file"


def _with_package_action(source: PackageSource) -> Action | None:
    return Action.of("plugin.install", source=source.text, package="PACKAGE") if source.text else None


def _run_hint(file: ServerFile) -> str:
    if file.python is not None and set(file.python.imports) & {"mcp", "fastmcp"}:
        return "end the file with a call that serves standard input and output, as mcp.run() does"
    return "a server answers JSON-RPC on its standard output, one message a line, until its standard input ends"


def _with_version(tx: Transaction, manifest: Manifest, draft: ServerDraft) -> Manifest:
    """Keep the installed version for the same package; otherwise count on from the highest one."""
    plugin = find_plugin(tx, manifest.name)
    rows = versions_of(tx, manifest.name) if plugin else []
    current = next((row for row in rows if plugin is not None and row.version == plugin.current_version), None)
    if current is not None:
        same = replace(manifest, version=current.version)
        if _is_same_package(tx, current, same, draft):
            return same
    if not rows:
        return manifest
    highest = max(Version.parse(row.version) for row in rows)
    return replace(manifest, version=f"{highest.major}.{highest.minor}.{highest.patch + 1}")


def _is_same_package(tx: Transaction, row: VersionRow, manifest: Manifest, draft: ServerDraft) -> bool:
    installed = {file.path: file.sha256 for file in tree_of(tx, row.plugin, row.version).files}
    installed_lock = find_lock(tx, row.plugin, row.version)
    return (
        installed.get(draft.file.packaged_name) == hashlib.sha256(draft.file.content).hexdigest()
        and (installed_lock.digest if installed_lock else "") == (draft.lock.digest if draft.lock else "")
        and to_yaml(manifest_of(row)) == to_yaml(manifest)
    )
