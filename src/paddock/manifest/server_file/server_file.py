"""A server that is one file: a Python or JavaScript program, or anything that the kernel can execute. Pure."""

from __future__ import annotations

import dataclasses
import posixpath
import re
from enum import StrEnum
from typing import TYPE_CHECKING

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.manifest.command import ENVIRONMENT_PREFIX, ENVIRONMENT_PYTHON
from paddock.manifest.names import plugin_name_problem, slug

if TYPE_CHECKING:
    from paddock.manifest.server_file.python_facts import PythonFacts


class Language(StrEnum):
    """The language of a server file, which decides what runs it."""

    PYTHON = "python"
    NODE = "node"
    PROGRAM = "program"  # the kernel runs it: a script that names its interpreter, or a compiled program


LANGUAGE_SUFFIXES = {
    ".py": Language.PYTHON,
    ".js": Language.NODE,
    ".mjs": Language.NODE,
    ".cjs": Language.NODE,
}
# Names that say nothing about a server.
_GENERAL_NAMES = frozenset({"app", "fastmcp", "index", "main", "mcp-server", "my-server", "run", "server"})
_SHEBANG = re.compile(rb"#![^\n]{0,250}?(?:(?P<python>\bpython[\d.]*\b|\buv run\b)|(?P<node>\bnode\b))")
_EXECUTABLE_FORMATS = (b"#!", b"\x7fELF")


@dataclasses.dataclass(frozen=True, slots=True)
class ServerFile:
    """A server file, as far as it is known without running it.

    Attributes:
        name: Its file name, as the person knows it.
        content: Its bytes.
        language: What runs it.
        python: What a Python file says about itself; None for any other.
    """

    name: str
    content: bytes = dataclasses.field(repr=False)
    language: Language
    python: PythonFacts | None = None

    @property
    def packaged_name(self) -> str:
        """Its name in the package: always the same, so that no name of a person's file can mean something there."""
        match self.language:
            case Language.PYTHON:
                return "server.py"
            case Language.NODE:
                suffix = _suffix(self.name)
                return f"server{suffix if suffix in LANGUAGE_SUFFIXES else '.js'}"
            case Language.PROGRAM:
                return "server"

    def command(self, *, packages: bool) -> tuple[str, ...]:
        """Return the command that runs it in its package, which may come with packages of its own."""
        path = f"./{self.packaged_name}"
        match self.language:
            case Language.PYTHON:
                return (f"{ENVIRONMENT_PREFIX}{ENVIRONMENT_PYTHON}" if packages else "python3", path)
            case Language.NODE:
                return ("node", path)
            case Language.PROGRAM:
                return (path,)

    def plugin_name(self, folder: str = "") -> str:
        """Return a name for the plugin: its own, that of the file, or that of the folder around it; may be empty."""
        own = self.python.server_name if self.python else ""
        candidates = [slug(text) for text in (own, posixpath.splitext(self.name)[0], folder)]
        usable = [one for one in candidates if one and plugin_name_problem(one) is None]
        return next((one for one in usable if one not in _GENERAL_NAMES), usable[0] if usable else "")

    @property
    def summary(self) -> str:
        """One sentence about it."""
        text = printable(self.python.summary, 300) if self.python else ""
        return text or f"The MCP server in {printable(self.name, 100)}"


def command_arguments(command: tuple[str, ...]) -> tuple[str, ...]:
    """Return the arguments of a server file in its command; see `ServerFile.command`."""
    return command[1:] if command[0].startswith("./") else command[2:]


def read_server_file(name: str, content: bytes) -> ServerFile:
    """Read a server file as data.

    Raises:
        Invalid: it is malformed, or nothing here runs it.
    """
    language = _language(name, content)
    if language is Language.PYTHON:
        # Imported lazily: every command that parses a source imports this module, and few read a Python file.
        from paddock.manifest.server_file.python_facts import read_python_facts

        text = content.decode("utf-8-sig", "replace")
        return ServerFile(name, content, language, read_python_facts(name, text))
    if language is Language.PROGRAM and not content.startswith(_EXECUTABLE_FORMATS):
        problem = Problem(
            "", "does not say what runs it", "begin it with a line such as #!/usr/bin/env python3", "no_interpreter"
        )
        raise Invalid(f"{printable(name)} is not a program", [problem], code="server.not_a_program")
    return ServerFile(name, content, language)


def _language(name: str, content: bytes) -> Language:
    by_suffix = LANGUAGE_SUFFIXES.get(_suffix(name))
    if by_suffix is not None:
        return by_suffix
    interpreter = _SHEBANG.match(content)
    if interpreter is None:
        return Language.PROGRAM
    return Language.PYTHON if interpreter["python"] else Language.NODE


def _suffix(name: str) -> str:
    return posixpath.splitext(name)[1].lower()
