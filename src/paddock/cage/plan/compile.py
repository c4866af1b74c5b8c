"""From what a person granted to the cage that holds exactly that. Pure over a `Machine`; finds all obstacles at once.

What each capability becomes:

    read:fs:PATH    the place itself, read-only, with everything below it
    write:fs:PATH   the same, writable
    exec:BIN:PATH   that one program may run; PATH, where it exists, is shown read-only as a place to run it in, unless
                    it is `/`, which stands for any place in the cage. The kernel cannot tie a program to a directory:
                    what keeps it in its place is that there is no other.
    net:…           addresses in the cage that lead out (`addresses.py`)
    storage, host   nothing: the plugin asks the host for these over its own pipe

Besides these a cage shows the plugin's own folder, the program of its command and what that needs to run; nothing more
can be executed (`runnable.py` says which programs a command may name). A grant to read around Paddock's own directories
shows them empty; one to write around them or one that lies inside is refused.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from paddock.cage.launcher import CageUnavailable
from paddock.cage.plan.allowed_programs import AllowedPrograms
from paddock.cage.plan.environment import ISOLATED_PYTHON_FLAGS, with_artifact_fds
from paddock.cage.plan.granted_paths import GrantRoots, PathRejected, resolve_granted_path
from paddock.cage.plan.host_filesystem import CachedFilesystem, HostFilesystem
from paddock.cage.plan.mount_layout import MAX_BINDS, MountLayout, is_below
from paddock.cage.plan.programs import PROGRAM_PATH, ResolvedPath, ResolvedProgram, is_python, resolve_links
from paddock.cage.plan.runtime_files import COMMON_PATHS, TLS_PATHS, library_trees, python_trees
from paddock.cage.spec import SDK_PATH, WORKER_SCRIPT, BindMount, CageSpec, PythonScript, ResourceLimits
from paddock.core.errors import Problem
from paddock.manifest.capability import Capability, Execute, FileAccess, HostService, NetworkAccess
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.net.egress import EgressGrant

_COMMAND = "runtime.command"
# How /bin became usr/bin, and what some machines have made one more of.
_MERGED_USR_LINKS = ("/bin", "/lib", "/lib64", "/sbin", "/usr/lib64", "/usr/sbin")
_NO_GRANT_ROOTS = GrantRoots()
_DEFAULT_LIMITS = ResourceLimits()


@dataclass(frozen=True, slots=True)
class HostPaths:
    """What is the same for every plugin of this host."""

    python: str  # the host's own interpreter; it raises the inner walls where the plugin is no Python program
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
    surroundings: HostPaths,
    machine: HostFilesystem,
    places: GrantRoots = _NO_GRANT_ROOTS,
    limits: ResourceLimits = _DEFAULT_LIMITS,
    command: Sequence[str] | None = None,
    trees: Iterable[str] = (),
) -> CageSpec:
    """The cage for one plugin.

    Args:
        cage_id: Names the cage in records.
        manifest: What the plugin is.
        root: The directory it is installed in.
        capabilities: What was granted, which may be less than the manifest asks for.
        environment: Its variables (`environment.spawn_environment`).
        surroundings: What every plugin of this host has around it.
        machine: The host's files.
        places: What `config:` and `project:` stand for.
        limits: What it may use.
        command: What to run where that is not what the manifest says: a worker that imports its Python code, or a
            program of the packages that it needs.
        trees: Directories of the host's own that the plugin needs to run, such as those packages. They are shown even
            where they lie in what is hidden.

    Raises:
        CageUnavailable: something that was granted or that its command names is not there or cannot be shown. Carries
            every such obstacle in `details["problems"]`; code and hint are the first one's.
    """
    job = _Compilation(root, surroundings, CachedFilesystem(machine))
    granted = tuple(capabilities)
    runtime = manifest.runtime
    named = runtime.command if isinstance(runtime, CommandRuntime) and command is None else tuple(command or ())
    reaches = tuple(dict.fromkeys(EgressGrant(one.host, one.port) for one in granted if isinstance(one, NetworkAccess)))
    encrypts = bool(reaches) or any(isinstance(one, Execute) for one in granted)
    job.show_libraries(TLS_PATHS if encrypts else ())
    job.show_granted(granted, places)
    job.programs.show_trees(trees)
    words = job.command(named, by_host=command is not None)
    directory = job.directory(runtime.cwd if isinstance(runtime, CommandRuntime) else None)
    # An MCP server has no words to ask for them with.
    speaks_mcp = isinstance(runtime, CommandRuntime) and runtime.protocol == "mcp"
    artifacts = HostService("artifacts") in granted and not speaks_mcp
    variables = job.with_sdk(with_artifact_fds(environment, manifest, granted=artifacts))
    job.check_strings(words, variables)
    trampoline = job.init_python()
    if job.problems:
        raise _unavailable_error(manifest, job.problems)
    binds, links, covers = job.layout.build()
    return CageSpec(
        cage_id=cage_id,
        plugin=manifest.name,
        command=words,
        directory=directory,
        environment=variables,
        binds=binds,
        links=links,
        covers=covers,
        executables=tuple(sorted(job.programs.executables)),
        trampoline=trampoline,
        network=reaches,
        limits=limits,
        python=job.python_main(words, directory, environment, granted),
        artifacts=artifacts,
    )


@dataclass(slots=True)
class _Compilation:
    """One cage in the making: what it shows, what may run in it, and what stands against it."""

    root: str
    surroundings: HostPaths
    machine: HostFilesystem
    layout: MountLayout = field(init=False)
    programs: AllowedPrograms = field(init=False)
    real_root: str = field(init=False)
    problems: list[Problem] = field(default_factory=list[Problem])
    host_program: ResolvedProgram | None = (
        None  # the command's program, where it is one that the machine has for everybody
    )
    python: bool = False  # whether the command is run by a Python interpreter

    def __post_init__(self) -> None:
        root = resolve_links(self.root, self.machine)
        self.real_root = root.real if root else self.root
        found = ((path, resolve_links(path, self.machine)) for path in self.surroundings.hidden)
        # One that is not there yet is hidden all the same: nobody but Paddock shall make it.
        self.layout = MountLayout(self.machine, [place.real if place else path for path, place in found])
        path = self.surroundings.program_path
        self.programs = AllowedPrograms(self.root, self.real_root, path, self.layout, self.machine, self.problems)
        if root is None:
            self._add_problem("root", "path_missing", f"the plugin's folder {self.root} is gone", "install it again")
        else:
            # The plugin's package, read-only, at the path by which the plugin is told of it.
            self.layout.show_traced(root)

    def show_libraries(self, more: Sequence[str]) -> None:
        self.programs.show_trees([*library_trees(self.machine), *COMMON_PATHS, *more])
        for path in _MERGED_USR_LINKS:
            self.layout.copy_link(path)

    def show_granted(self, granted: Iterable[Capability], places: GrantRoots) -> None:
        """Granted places, and then programs, some of which may lie there."""
        programs: list[Execute] = []
        for capability in granted:
            if not isinstance(capability, FileAccess | Execute):
                continue
            runs = isinstance(capability, Execute)
            writes = not runs and capability.mode == "write"
            if runs:
                programs.append(capability)
                if not capability.root and capability.path == "/":
                    continue
            try:
                real = resolve_granted_path(capability, places, self.layout.hidden, self.machine)
            except PathRejected as refused:
                # A program can run without the place that it was meant for; files cannot be read without theirs.
                if not (runs and refused.problem.code == "cage.path_missing"):
                    self.problems.append(refused.problem)
            else:
                if writes:
                    self._check_writable(real, str(capability))
                self.layout.show(real, writable=writes, own=capability.root == "config")
        for program in programs:
            self.programs.allow(program.binary, str(program))
        if self.layout.exceeds_limit:
            what = f"more than {MAX_BINDS} places would have to be shown one by one"
            self._add_problem("capabilities", "too_many_places", what, "grant fewer, larger places")

    def _check_writable(self, real: str, wanted_by: str) -> None:
        """Nothing that is not the plugin's to change may lie in what it may change, not even covered.

        Who may write around a place may rename a directory on the way to it, and next time the place stands bare at
        another path.
        """
        if any(is_below(place, real) for place in self.layout.hidden):
            what = f"{real} has Paddock's own directories in it, and who may write there could move them"
            self._add_problem(wanted_by, "hidden_path", what, "grant a narrower place")
        elif is_below(real, self.real_root) or is_below(self.real_root, real):
            what = "a plugin cannot change its own package, which is there"
            self._add_problem(wanted_by, "own_package", what, "grant another place")

    def command(self, named: Sequence[str], *, by_host: bool) -> tuple[str, ...]:
        """The words to run, the first one absolute."""
        # `env` only looks a program up in PATH, which is done here.
        words = tuple(named[1:] if named and posixpath.basename(named[0]) == "env" else named)
        if not words:
            self._add_problem(_COMMAND, "no_command", "the manifest names nothing to run", "add a runtime.command")
            return ()
        name = words[0]
        path = self.programs.packaged_path(name)
        if path is not None:
            self.programs.allow_packaged(path, _COMMAND)
            self.python = self.programs.python
            return (path, *words[1:])
        if name.startswith(("-", ".")) or "=" in name or ("/" in name and not name.startswith("/")):
            self._add_problem(
                _COMMAND, "command_unclear", f"{name!r} is no program of the package or of the machine", ""
            )
            return ()
        program = self.programs.allow(name, _COMMAND, by_host=by_host)
        if program is None:
            return ()
        self.python = is_python(program)
        # What lies in a granted place only may be the plugin's own work: the walls are nothing for it to raise.
        self.host_program = program if by_host or self.programs.program_on_path(program) else None
        return (program.path, *words[1:])

    def directory(self, wanted: str | None) -> str:
        """Where the command starts: in the package unless the manifest says otherwise."""
        path = posixpath.normpath(posixpath.join(self.root, wanted or "."))
        found = resolve_links(path, self.machine)
        if wanted and (found is None or not self.layout.shows(found.real)):
            self._add_problem(
                "runtime.cwd", "directory_hidden", f"{path} is not seen in the cage", "grant read:fs for it"
            )
        return path

    def with_sdk(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The variables, with the way to the SDK for a Python plugin: behind whatever way it has chosen itself."""
        found = resolve_links(f"{self.surroundings.sdk}/paddock_sdk", self.machine) if self.surroundings.sdk else None
        if not self.python or found is None:
            return dict(environment)
        self.layout.add_bind(BindMount(found.real, f"{SDK_PATH}/paddock_sdk"))
        chosen = environment.get("PYTHONPATH")
        return {**environment, "PYTHONPATH": f"{chosen}:{SDK_PATH}" if chosen else SDK_PATH}

    def check_strings(self, words: Sequence[str], environment: Mapping[str, str]) -> None:
        """Nothing that a program is started with can hold a NUL, and no variable's name an equals sign."""
        for name, value in environment.items():
            if not name or "=" in name or "\0" in name + value:
                self._add_problem(
                    "runtime.env", "bad_variable", f"{name!r} cannot be a variable", "rename or remove it"
                )
        if any("\0" in word for word in words):
            self._add_problem(_COMMAND, "command_unclear", "a word of the command has a NUL in it", "remove it")

    def init_python(self) -> str:
        """The interpreter that raises the inner walls: the command's own, if it is the machine's Python, else ours."""
        if self.host_program is not None and is_python(self.host_program):
            return self.host_program.real
        found = resolve_links(self.surroundings.python, self.machine)
        if found is None:
            self._add_problem("host", "python_missing", f"{self.surroundings.python} is gone", "install Paddock again")
            return ""
        # Bare: neither the links that lead to it nor a virtual environment that it belongs to.
        bare = ResolvedProgram(found.real, ResolvedPath(found.real, ()))
        self.layout.show(bare.real)
        self.programs.show_trees(python_trees(bare, self.machine))
        return bare.real

    def python_main(
        self, words: Sequence[str], directory: str, environment: Mapping[str, str], granted: Iterable[Capability]
    ) -> PythonScript | None:
        """The command as a script for a warm interpreter, where that makes no difference to what the plugin sees."""
        if tuple(words[1:]) == (*ISOLATED_PYTHON_FLAGS, WORKER_SCRIPT):
            words = (words[0], WORKER_SCRIPT)  # a warm interpreter was started so
        if self.host_program is None or not is_python(self.host_program) or len(words) < 2 or words[1].startswith("-"):
            return None
        if any(isinstance(one, FileAccess | Execute) for one in granted):
            return None
        if any(name.startswith("PYTHON") for name in environment):
            return None
        script = posixpath.normpath(posixpath.join(directory, words[1]))
        if script != WORKER_SCRIPT and (not is_below(script, self.root) or self.machine.kind(script) != "file"):
            return None
        return PythonScript(words[0], script, tuple(words[2:]))

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
