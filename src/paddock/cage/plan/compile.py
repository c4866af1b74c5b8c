"""Compiles granted capabilities to the cage spec that holds exactly them. Pure over a `HostFilesystem`; reports all
problems at once.

What each capability becomes:

    read:fs:PATH    a read-only bind of the path, with everything below it
    write:fs:PATH   the same, writable
    exec:BIN:PATH   that one program may run; PATH, where it exists, is shown read-only as a directory to run it in,
    unless
                    it is `/`, which stands for any directory in the cage. The kernel cannot tie a program to a
                    directory:
                    what keeps it there is that there is no other.
    net:…           addresses in the cage that lead out (`network_plan.py`)
    storage, host   nothing: the plugin asks the host for these over its own pipe

Besides these a cage shows the plugin's own directory, the program of its command and what that needs to run; nothing
else can be executed (`allowed_programs.py` says which programs a command may name). A read grant around Paddock's own
directories shows them empty; a write grant around them, or any grant inside them, is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.allowed_programs import AllowedPrograms
from paddock.cage.plan.database_files import is_database
from paddock.cage.plan.environment import ISOLATED_PYTHON_FLAGS, with_artifact_fds
from paddock.cage.plan.granted_paths import GrantRoots, PathRejected, resolve_granted_path
from paddock.cage.plan.host_filesystem import CachedFilesystem, HostFilesystem
from paddock.cage.plan.mount_layout import MAX_BINDS, MountLayout, is_below
from paddock.cage.plan.programs import PROGRAM_PATH, ResolvedPath, ResolvedProgram, is_python, resolve_links
from paddock.cage.plan.runtime_files import COMMON_PATHS, TLS_PATHS, library_trees, python_trees
from paddock.cage.plan.throwaway_places import find_lost_paths
from paddock.cage.spec import SDK_PATH, WORKER_SCRIPT, BindMount, CageSpec, Learning, PythonScript, ResourceLimits
from paddock.core.errors import Problem
from paddock.manifest.capability import Capability, Execute, FileAccess, HostService, NetworkAccess
from paddock.manifest.credential_paths import is_whole_home
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.net.egress import EgressGrant

_COMMAND = "runtime.command"
# Links of a merged /usr: /bin to usr/bin, and on some distributions more.
_MERGED_USR_LINKS = ("/bin", "/lib", "/lib64", "/sbin", "/usr/lib64", "/usr/sbin")
_NO_GRANT_ROOTS = GrantRoots()
_DEFAULT_LIMITS = ResourceLimits()
_NO_CONFIG: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class HostPaths:
    """Paths that are the same for every plugin of this host."""

    python: str  # the host's own interpreter; it runs `sandbox_init` where the plugin is no Python program
    sdk: str | None = None  # the directory that contains `paddock_sdk`
    hidden: tuple[str, ...] = ()  # Paddock's own directories, never shown
    program_path: str = PROGRAM_PATH


def compile_cage(
    *,
    cage_id: str,
    manifest: Manifest,
    root: str,
    capabilities: Iterable[Capability],
    environment: Mapping[str, str],
    host_paths: HostPaths,
    filesystem: HostFilesystem,
    roots: GrantRoots = _NO_GRANT_ROOTS,
    limits: ResourceLimits = _DEFAULT_LIMITS,
    command: Sequence[str] | None = None,
    trees: Iterable[str] = (),
    config: Mapping[str, Any] = _NO_CONFIG,
    learning: Learning | None = None,
) -> CageSpec:
    """Compile the cage for one plugin.

    Args:
        cage_id: Identifies the cage in records.
        manifest: The plugin's manifest.
        root: The directory it is installed in.
        capabilities: The granted capabilities, which may be fewer than the manifest requests.
        environment: Its variables (`environment.spawn_environment`).
        host_paths: Paths of this host.
        filesystem: The host's files.
        roots: What `config:` and `project:` stand for.
        limits: Its resource limits.
        command: The command to run instead of the manifest's: a worker that imports its Python code, or a
            program of its dependencies.
        trees: Directories of the host that the plugin needs to run, such as those dependencies. They are shown even
            where they lie in a hidden directory.
        config: The plugin's configuration, in plain text.
        learning: Makes it a learning cage.

    Raises:
        CageUnavailable: Something that was granted or that its command names does not exist or cannot be shown. Carries
            every problem in `details["problems"]`; code and hint are the first one's.
    """
    compilation = _Compilation(root, host_paths, CachedFilesystem(filesystem))
    granted = tuple(capabilities)
    runtime = manifest.runtime
    declared_command = (
        runtime.command if isinstance(runtime, CommandRuntime) and command is None else tuple(command or ())
    )
    egress = tuple(dict.fromkeys(EgressGrant(one.host, one.port) for one in granted if isinstance(one, NetworkAccess)))
    # A learning cage shows what comes with any grant of a host, so that it is not taken for a need of its own.
    needs_tls = bool(egress) or any(isinstance(one, Execute) for one in granted) or learning is not None
    compilation.show_libraries(TLS_PATHS if needs_tls else ())
    compilation.show_granted(granted, roots)
    compilation.programs.show_trees(trees)
    argv = compilation.command(declared_command, by_host=command is not None)
    directory = compilation.directory(runtime.cwd if isinstance(runtime, CommandRuntime) else None)
    # MCP has no method for artifacts.
    speaks_mcp = isinstance(runtime, CommandRuntime) and runtime.protocol == "mcp"
    artifacts = HostService("artifacts") in granted and not speaks_mcp
    variables = compilation.with_sdk(with_artifact_fds(environment, manifest, granted=artifacts))
    compilation.check_strings(argv, variables)
    trampoline = compilation.init_python()
    if learning is None:  # a learning cage shows where such a file should be instead
        compilation.check_nothing_is_lost(manifest, config, directory)
        compilation.check_databases(granted, roots)
    if compilation.problems:
        raise _unavailable_error(manifest, compilation.problems)
    binds, links, covers = compilation.layout.build()
    return CageSpec(
        cage_id=cage_id,
        plugin=manifest.name,
        command=argv,
        directory=directory,
        environment=variables,
        binds=binds,
        links=links,
        covers=covers,
        executables=tuple(sorted(compilation.programs.executables)),
        trampoline=trampoline,
        network=egress,
        limits=limits,
        python=compilation.python_main(argv, directory, environment, granted),
        artifacts=artifacts,
        learning=learning,
    )


@dataclass(slots=True)
class _Compilation:
    """One compilation in progress: the mounts, the allowed programs, and the problems found."""

    root: str
    host_paths: HostPaths
    filesystem: HostFilesystem
    layout: MountLayout = field(init=False)
    programs: AllowedPrograms = field(init=False)
    real_root: str = field(init=False)
    problems: list[Problem] = field(default_factory=list[Problem])
    host_program: ResolvedProgram | None = (
        None  # the command's program, where it is one that the machine has for everybody
    )
    python: bool = False  # whether the command is run by a Python interpreter

    def __post_init__(self) -> None:
        root = resolve_links(self.root, self.filesystem)
        self.real_root = root.real if root else self.root
        resolved_hidden = ((path, resolve_links(path, self.filesystem)) for path in self.host_paths.hidden)
        # One that does not exist yet is hidden too: only Paddock may create it.
        self.layout = MountLayout(
            self.filesystem, [resolved.real if resolved else path for path, resolved in resolved_hidden]
        )
        path = self.host_paths.program_path
        self.programs = AllowedPrograms(self.root, self.real_root, path, self.layout, self.filesystem, self.problems)
        if root is None:
            self._add_problem("root", "path_missing", f"the plugin's folder {self.root} is gone", "install it again")
        else:
            # The plugin's package, read-only, at the path that the plugin is told.
            self.layout.show_traced(root)

    def show_libraries(self, extra: Sequence[str]) -> None:
        self.programs.show_trees([*library_trees(self.filesystem), *COMMON_PATHS, *extra])
        for path in _MERGED_USR_LINKS:
            self.layout.copy_link(path)

    def show_granted(self, granted: Iterable[Capability], roots: GrantRoots) -> None:
        """Show granted paths, and then allow programs, some of which may lie there."""
        programs: list[Execute] = []
        for capability in granted:
            if not isinstance(capability, FileAccess | Execute):
                continue
            is_execute = isinstance(capability, Execute)
            is_write = not is_execute and capability.mode == "write"
            if is_execute:
                programs.append(capability)
                if not capability.root and capability.path == "/":
                    continue
            try:
                real = resolve_granted_path(capability, roots, self.layout.hidden, self.filesystem)
            except PathRejected as rejection:
                # A program can run without the directory it was meant for; files cannot be read without theirs.
                if not (is_execute and rejection.problem.code == "cage.path_missing"):
                    self.problems.append(rejection.problem)
            else:
                if is_write:
                    self._check_writable(real, str(capability))
                self.layout.show(real, writable=is_write, own=capability.root == "config")
        for program in programs:
            self.programs.allow(program.binary, str(program))
        if self.layout.exceeds_limit:
            message = f"more than {MAX_BINDS} places would have to be shown one by one"
            self._add_problem("capabilities", "too_many_places", message, "grant fewer, larger places")

    def _check_writable(self, real: str, wanted_by: str) -> None:
        """Refuse a writable path that contains, or lies in, what the plugin must not change, even if it is covered.

        With write access around a directory the plugin could rename one of its parents, and next time the directory
        would be visible at
        another path.
        """
        if any(is_below(directory, real) for directory in self.layout.hidden):
            message = f"{real} has Paddock's own directories in it, and who may write there could move them"
            self._add_problem(wanted_by, "hidden_path", message, "grant a narrower place")
        elif is_below(real, self.real_root) or is_below(self.real_root, real):
            message = "a plugin cannot change its own package, which is there"
            self._add_problem(wanted_by, "own_package", message, "grant another place")

    def command(self, declared: Sequence[str], *, by_host: bool) -> tuple[str, ...]:
        """The command to run, its program as an absolute path."""
        # `env` only looks a program up in PATH, which is done here.
        argv = tuple(declared[1:] if declared and posixpath.basename(declared[0]) == "env" else declared)
        if not argv:
            self._add_problem(_COMMAND, "no_command", "the manifest names nothing to run", "add a runtime.command")
            return ()
        name = argv[0]
        path = self.programs.packaged_path(name)
        if path is not None:
            self.programs.allow_packaged(path, _COMMAND)
            self.python = self.programs.python
            return (path, *argv[1:])
        if name.startswith(("-", ".")) or "=" in name or ("/" in name and not name.startswith("/")):
            self._add_problem(
                _COMMAND, "command_unclear", f"{name!r} is no program of the package or of the machine", ""
            )
            return ()
        program = self.programs.allow(name, _COMMAND, by_host=by_host)
        if program is None:
            return ()
        self.python = is_python(program)
        # A program that lies only in a granted directory may be the plugin's own work, and must not run `sandbox_init`.
        self.host_program = program if by_host or self.programs.program_on_path(program) else None
        return (program.path, *argv[1:])

    def directory(self, declared: str | None) -> str:
        """The working directory of the command: the package unless the manifest says otherwise."""
        path = posixpath.normpath(posixpath.join(self.root, declared or "."))
        resolved = resolve_links(path, self.filesystem)
        if declared and (resolved is None or not self.layout.shows(resolved.real)):
            self._add_problem(
                "runtime.cwd", "directory_hidden", f"{path} is not seen in the cage", "grant read:fs for it"
            )
        return path

    def with_sdk(self, environment: Mapping[str, str]) -> dict[str, str]:
        """Add the SDK to PYTHONPATH for a Python plugin, behind its own entries."""
        resolved = resolve_links(f"{self.host_paths.sdk}/paddock_sdk", self.filesystem) if self.host_paths.sdk else None
        if not self.python or resolved is None:
            return dict(environment)
        self.layout.add_bind(BindMount(resolved.real, f"{SDK_PATH}/paddock_sdk"))
        own_path = environment.get("PYTHONPATH")
        return {**environment, "PYTHONPATH": f"{own_path}:{SDK_PATH}" if own_path else SDK_PATH}

    def check_strings(self, argv: Sequence[str], environment: Mapping[str, str]) -> None:
        """Check that no argument or variable contains a NUL, and no variable's name an equals sign."""
        for name, value in environment.items():
            if not name or "=" in name or "\0" in name + value:
                self._add_problem(
                    "runtime.env", "bad_variable", f"{name!r} cannot be a variable", "rename or remove it"
                )
        if any("\0" in argument for argument in argv):
            self._add_problem(_COMMAND, "command_unclear", "a word of the command has a NUL in it", "remove it")

    def check_nothing_is_lost(self, manifest: Manifest, config: Mapping[str, Any], directory: str) -> None:
        """Refuse a path of the settings that leads to a throw-away place of the cage."""

        def is_kept(path: str) -> bool:
            # With a home of Paddock in /tmp, the plugin's own folder is there; it ends with that home anyway.
            return self.layout.shows(path) or any(is_below(path, hidden) for hidden in self.layout.hidden)

        for lost in find_lost_paths(manifest, config, directory, is_kept, self.filesystem):
            self._add_problem(lost.where, "throwaway_path", lost.message, lost.hint(self.filesystem))

    def check_databases(self, granted: Iterable[Capability], roots: GrantRoots) -> None:
        """Refuse a grant to change a SQLite file without its folder: the journal beside it would be thrown away."""
        for capability in granted:
            if not isinstance(capability, FileAccess) or capability.mode != "write":
                continue
            try:
                real = resolve_granted_path(capability, roots, self.layout.hidden, self.filesystem)
            except PathRejected:
                continue  # reported already
            folder = posixpath.dirname(real)
            if is_database(real, self.filesystem) and not self.layout.shows(folder, writable=True):
                message = f"{real} is a SQLite database: the journal that it needs in its folder would be thrown away"
                granting = f"grant write:fs:{folder} in place of it"
                if is_whole_home(folder):
                    granting = "move it into a folder of its own, and grant write:fs: with that folder"
                self._add_problem(str(capability), "database_without_folder", message, granting)

    def init_python(self) -> str:
        """The interpreter that runs `sandbox_init`: the command's own, if it is the host's Python, else ours."""
        if self.host_program is not None and is_python(self.host_program):
            return self.host_program.real
        resolved = resolve_links(self.host_paths.python, self.filesystem)
        if resolved is None:
            self._add_problem("host", "python_missing", f"{self.host_paths.python} is gone", "install Paddock again")
            return ""
        # Bare: neither the links that lead to it nor a virtual environment that it belongs to.
        bare = ResolvedProgram(resolved.real, ResolvedPath(resolved.real, ()))
        self.layout.show(bare.real)
        self.programs.show_trees(python_trees(bare, self.filesystem))
        return bare.real

    def python_main(
        self, argv: Sequence[str], directory: str, environment: Mapping[str, str], granted: Iterable[Capability]
    ) -> PythonScript | None:
        """The command as a script for a zygote, where that makes no difference to what the plugin sees."""
        if tuple(argv[1:]) == (*ISOLATED_PYTHON_FLAGS, WORKER_SCRIPT):
            argv = (argv[0], WORKER_SCRIPT)  # a zygote was started with these flags
        if self.host_program is None or not is_python(self.host_program) or len(argv) < 2 or argv[1].startswith("-"):
            return None
        if any(isinstance(one, FileAccess | Execute) for one in granted):
            return None
        if any(name.startswith("PYTHON") for name in environment):
            return None
        script = posixpath.normpath(posixpath.join(directory, argv[1]))
        if script != WORKER_SCRIPT and (not is_below(script, self.root) or self.filesystem.kind(script) != "file"):
            return None
        return PythonScript(argv[0], script, tuple(argv[2:]))

    def _add_problem(self, path: str, code: str, message: str, hint: str) -> None:
        self.problems.append(Problem(path, message, hint, f"cage.{code}"))


def _unavailable_error(manifest: Manifest, problems: Sequence[Problem]) -> CageUnavailable:
    first, others = problems[0], len(problems) - 1
    more = f", and {others} more" if others else ""
    return CageUnavailable(
        f"no cage can be built for {manifest.name}: {first.path}: {first.message}{more}",
        code=first.code,
        hint=first.hint,
        details={"problems": [problem.to_dict() for problem in problems]},
    )
