"""Decides which programs may run in one cage, and mounts them with the files they need. Pure.

A package chooses its command and the `#!` lines of its scripts, and every allowed program is mounted. So that no
package reads a file of the host by naming it there, a program must be one of these:

    a file of the package itself
    an entry of a directory on the program path, wherever its links lead from there: the host's owner made those
    a file that the cage shows anyway, because its directory was granted
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from paddock.cage.plan.environment import CAGE_PATH
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.mount_layout import NEVER_MOUNTED, MountLayout, is_below
from paddock.cage.plan.programs import (
    ResolvedProgram,
    copied_interpreter,
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
        root: The plugin's directory, as the plugin sees it.
        real_root: The same with all links resolved.
        program_path: Directories of the host's programs.
        layout: The cage's mounts; programs are added to it. Grants must be in it before.
        filesystem: The host's files.
        problems: Receives what is wrong with the programs.
    """

    def __init__(
        self,
        root: str,
        real_root: str,
        program_path: str,
        layout: MountLayout,
        filesystem: HostFilesystem,
        problems: list[Problem],
    ) -> None:
        self._root = root
        self._real_root = real_root
        self._program_path = program_path
        self._layout = layout
        self._filesystem = filesystem
        self._problems = problems
        self.executables: set[str] = set()
        self.python = False  # whether a program of the package is run by a Python interpreter

    def packaged_path(self, name: str) -> str | None:
        """The path of a file in the plugin's own directory, where the name is one."""
        path = posixpath.normpath(posixpath.join(self._root, name))
        return path if "/" in name and is_below(path, self._root) else None

    def allow(self, name: str, wanted_by: str, *, by_host: bool = False) -> ResolvedProgram | None:
        """Allow a program of the host, by its bare name or absolute path, and mount it with the files it needs.

        Args:
            name: Its name or path.
            wanted_by: Where the name was read, for records.
            by_host: Whether the host itself chose it. Then it may lie anywhere.
        """
        program = find_program(name, self._program_path, self._filesystem)
        if program is None:
            hint = "install it" if name.startswith("/") else f"install it into one of {self._directories()}"
            message = f"this machine has no program {printable(name)}"
            self._add_problem(wanted_by, "program_missing", message, hint)
            return None
        public = program if by_host else self.program_on_path(program)
        origin = copied_interpreter(program, self._filesystem)
        public_origin = self.program_on_path(origin) if origin else None
        if not by_host and not self._check_visible(program, public, wanted_by):
            return None
        if origin and not (by_host or public) and not self._check_visible(origin, public_origin, wanted_by):
            return None
        self._layout.show_traced(program.resolved)
        if "/" not in name and posixpath.dirname(program.path) not in CAGE_PATH.split(":"):
            # Found outside the cage's PATH: the plugin must still find it by its name.
            self._layout.add_links([SymbolicLink(f"/usr/bin/{name}", program.path)])
        if public is not None:
            self.show_trees(program_trees(public, self._filesystem))
        elif public_origin is not None:
            self.show_trees(program_trees(public_origin, self._filesystem))
        if program.real not in self.executables:
            self.executables.add(program.real)
            self._allow_interpreters(program.real, wanted_by)
        return program

    def allow_packaged(self, path: str, wanted_by: str) -> None:
        """Allow a program of the package, and its interpreter where it is a script."""
        resolved = resolve_links(path, self._filesystem)
        inside = resolved is not None and is_below(resolved.real, self._real_root)
        if resolved is None or not inside or self._filesystem.kind(resolved.real) != "file":
            self._add_problem(wanted_by, "program_missing", f"the package has no file {path}", "name one of its files")
            return
        if not self._filesystem.runnable(resolved.real):
            self._add_problem(wanted_by, "not_executable", f"{path} is not executable", f"chmod +x {path}")
        if path not in self.executables:
            self.executables.add(path)
            for program in self._allow_interpreters(resolved.real, wanted_by):
                self.python = self.python or is_python(program)

    def program_on_path(self, program: ResolvedProgram) -> ResolvedProgram | None:
        """The program from the point where its links enter the program path; None where they never do."""
        return program_on_path(program, self._program_path, self._filesystem)

    def show_trees(self, paths: Iterable[str]) -> None:
        for path in paths:
            resolved = resolve_links(path, self._filesystem)
            if resolved is not None:
                self._layout.show_traced(resolved)

    def _allow_interpreters(self, script: str, wanted_by: str) -> list[ResolvedProgram]:
        """Allow the interpreters of a script. Returns those that are the host's."""
        allowed: list[ResolvedProgram] = []
        for name in shebang_interpreters(script, self._filesystem):
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
            if any(is_below(step, directory) for directory in (*NEVER_MOUNTED, *self._layout.hidden)):
                message = f"{printable(step)} is the host's own, and no program of a plugin may be there"
                self._add_problem(wanted_by, "hidden_path", message, "name a program of the machine or of the package")
                return False
        private = program.steps[: len(program.steps) - len(public.steps if public else ())]
        unseen = next((step for step in private if not self._layout.shows(step)), None)
        if unseen is None:
            return True
        message = f"{printable(unseen)} is neither in the package nor in one of {self._directories()} nor granted"
        hint = f"name a program by its bare name, or grant read:fs:{printable(posixpath.dirname(unseen))}"
        self._add_problem(wanted_by, "program_elsewhere", message, hint)
        return False

    def _directories(self) -> str:
        return self._program_path.replace(":", ", ")

    def _add_problem(self, path: str, code: str, message: str, hint: str) -> None:
        self._problems.append(Problem(path, message, hint, f"cage.{code}"))
