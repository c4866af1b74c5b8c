"""Which programs may run in one cage: found where plugins may find them, and shown with what they need. Pure.

A package chooses its command and the `#!` lines of its scripts, and whatever runs is shown. So that nobody reads a file
of the host by naming it there, a program must be one of these:

    a file of the package itself
    what stands in a directory of the program path, wherever its links lead from there: those the machine's owner made
    what the cage shows anyway, because a place that it lies in was granted
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from paddock.cage.plan.environment import CAGE_PATH
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.mount_layout import NEVER_MOUNTED, MountLayout, is_below
from paddock.cage.plan.programs import (
    ResolvedProgram,
    find_program,
    is_python,
    program_on_path,
    resolve_links,
    shebang_interpreters,
)
from paddock.cage.plan.runtime_files import program_trees
from paddock.cage.spec import SymbolicLink
from paddock.core.errors import Problem
from paddock.core.printable import printable


class AllowedPrograms:
    """The programs of one cage.

    Args:
        root: The plugin's folder as the plugin is told of it.
        real_root: The same with no link on the way.
        program_path: Directories of the machine's programs.
        layout: What the cage shows; programs are added to it. Grants must be in it before.
        machine: The host's files.
        problems: Where to put what stands against them.
    """

    def __init__(
        self,
        root: str,
        real_root: str,
        program_path: str,
        layout: MountLayout,
        machine: HostFilesystem,
        problems: list[Problem],
    ) -> None:
        self._root = root
        self._real_root = real_root
        self._program_path = program_path
        self._layout = layout
        self._machine = machine
        self._problems = problems
        self.executables: set[str] = set()
        self.python = False  # whether a program of the package is run by a Python interpreter

    def packaged_path(self, name: str) -> str | None:
        """The path of a file in the plugin's own folder, where the name is one."""
        path = posixpath.normpath(posixpath.join(self._root, name))
        return path if "/" in name and is_below(path, self._root) else None

    def allow(self, name: str, wanted_by: str, *, by_host: bool = False) -> ResolvedProgram | None:
        """A program of the machine, by its bare name or absolute path: shown with what it needs, and allowed to run.

        Args:
            name: What it is called.
            wanted_by: Where the name was read, for records.
            by_host: Whether the host itself chose it. Then it may lie anywhere.
        """
        program = find_program(name, self._program_path, self._machine)
        if program is None:
            hint = "install it" if name.startswith("/") else f"install it into one of {self._directories()}"
            what = f"this machine has no program {printable(name)}"
            self._add_problem(wanted_by, "program_missing", what, hint)
            return None
        public = program if by_host else self.program_on_path(program)
        if not by_host and not self._check_visible(program, public, wanted_by):
            return None
        self._layout.show_traced(program.resolved)
        if "/" not in name and posixpath.dirname(program.path) not in CAGE_PATH.split(":"):
            # Found where plugins do not look: by its name they must find it all the same.
            self._layout.add_links([SymbolicLink(f"/usr/bin/{name}", program.path)])
        if public is not None:
            self.show_trees(program_trees(public, self._machine))
        if program.real not in self.executables:
            self.executables.add(program.real)
            self._allow_interpreters(program.real, wanted_by)
        return program

    def allow_packaged(self, path: str, wanted_by: str) -> None:
        """A program of the package, and its interpreter where it is a script."""
        found = resolve_links(path, self._machine)
        inside = found is not None and is_below(found.real, self._real_root)
        if found is None or not inside or self._machine.kind(found.real) != "file":
            self._add_problem(wanted_by, "program_missing", f"the package has no file {path}", "name one of its files")
            return
        if not self._machine.runnable(found.real):
            self._add_problem(wanted_by, "not_executable", f"{path} is not executable", f"chmod +x {path}")
        if path not in self.executables:
            self.executables.add(path)
            for program in self._allow_interpreters(found.real, wanted_by):
                self.python = self.python or is_python(program)

    def program_on_path(self, program: ResolvedProgram) -> ResolvedProgram | None:
        """The part of the way to a program that is the machine's for everybody; None where there is no such part."""
        return program_on_path(program, self._program_path, self._machine)

    def show_trees(self, paths: Iterable[str]) -> None:
        for path in paths:
            found = resolve_links(path, self._machine)
            if found is not None:
                self._layout.show_traced(found)

    def _allow_interpreters(self, script: str, wanted_by: str) -> list[ResolvedProgram]:
        """What must run before a script does, as far as it is the machine's."""
        allowed: list[ResolvedProgram] = []
        for name in shebang_interpreters(script, self._machine):
            path = self.packaged_path(name)
            if path is not None:
                self.allow_packaged(path, wanted_by)
            elif (program := self.allow(name, wanted_by)) is not None:
                allowed.append(program)
        return allowed

    def _check_visible(self, program: ResolvedProgram, public: ResolvedProgram | None, wanted_by: str) -> bool:
        for step in program.steps:
            if is_below(step, self._real_root):
                continue
            if any(is_below(step, place) for place in (*NEVER_MOUNTED, *self._layout.hidden)):
                what = f"{printable(step)} is the host's own, and no program of a plugin may be there"
                self._add_problem(wanted_by, "hidden_path", what, "name a program of the machine or of the package")
                return False
        private = program.steps[: len(program.steps) - len(public.steps if public else ())]
        unseen = next((step for step in private if not self._layout.shows(step)), None)
        if unseen is None:
            return True
        what = f"{printable(unseen)} is neither in the package nor in one of {self._directories()} nor granted"
        hint = f"name a program by its bare name, or grant read:fs:{printable(posixpath.dirname(unseen))}"
        self._add_problem(wanted_by, "program_elsewhere", what, hint)
        return False

    def _directories(self) -> str:
        return self._program_path.replace(":", ", ")

    def _add_problem(self, path: str, code: str, message: str, hint: str) -> None:
        self._problems.append(Problem(path, message, hint, f"cage.{code}"))
