"""Reads the inline metadata of a Python script (PEP 723): the packages and the Python that it asks for. Pure."""

from __future__ import annotations

from typing import Any, cast

from msgspec import Struct

from paddock.core.errors import Invalid, Problem
from paddock.core.printable import printable
from paddock.manifest.registry_package import parse_python_requirement
from paddock.manifest.syntax.toml_document import parse_toml

_OPEN = "# /// script"
_CLOSE = "# ///"
_MAX_REQUIREMENTS = 200


class ScriptMetadata(Struct, frozen=True):
    """The metadata of a script.

    Attributes:
        requirements: The packages, as a person would name them to pip.
        python: The versions of Python that it runs on; empty for any.
    """

    requirements: tuple[str, ...] = ()
    python: str = ""


def read_script_metadata(name: str, text: str) -> ScriptMetadata | None:
    """Read the `# /// script` block of a source file; None if it has none.

    Raises:
        Invalid: the block is malformed, or asks for more than packages of an index; carries every mistake.
    """
    blocks = _script_blocks(text.splitlines())
    if not blocks:
        return None
    first_line, lines = blocks[0]
    if len(blocks) > 1:
        problem = Problem("", "has a second '# /// script' block", "keep one of them", "twice", blocks[1][0])
        raise _metadata_error(name, [problem])
    value = cast("dict[str, Any]", parse_toml(name, "\n".join(line[2:] for line in lines)).value)
    dependencies: Any = value.get("dependencies", [])
    python: Any = value.get("requires-python", "")
    problems: list[Problem] = []
    if not isinstance(python, str) or not _is_python_range(python):
        problems.append(Problem("requires-python", "is not a range of versions", "write e.g. '>=3.11'", "malformed"))
    if not isinstance(dependencies, list):
        problems.append(Problem("dependencies", "is not a list", "write dependencies = ['NAME']", "malformed"))
        dependencies = []
    requirements: list[str] = []
    for item in cast("list[Any]", dependencies)[:_MAX_REQUIREMENTS]:
        # An address or a file would decide where pip looks and what it runs.
        requirement = parse_python_requirement(item) if isinstance(item, str) else None
        if requirement is None:
            hint = "name packages of the index only: no addresses, files or repositories"
            problems.append(Problem("dependencies", printable(str(item), 80), hint, "not_a_package", first_line))
        else:
            requirements.append(str(requirement))
    if len(cast("list[Any]", dependencies)) > _MAX_REQUIREMENTS:
        problems.append(Problem("dependencies", f"asks for more than {_MAX_REQUIREMENTS} packages", code="too_many"))
    if problems:
        raise _metadata_error(name, problems)
    return ScriptMetadata(tuple(requirements), cast("str", python))


def _script_blocks(lines: list[str]) -> list[tuple[int, list[str]]]:
    """Return the blocks with the number of their first line. A block ends at the last `# ///` of its comment."""
    blocks: list[tuple[int, list[str]]] = []
    index = 0
    while index < len(lines):
        if lines[index].rstrip() != _OPEN:
            index += 1
            continue
        end = close = index + 1
        while end < len(lines) and (lines[end] == "#" or lines[end].startswith("# ")):
            if lines[end].rstrip() == _CLOSE:
                close = end
            end += 1
        if close > index + 1 or (close < len(lines) and lines[close].rstrip() == _CLOSE):
            blocks.append((index + 1, lines[index + 1 : close]))
        index = end
    return blocks


def _is_python_range(text: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return len(text) <= 100


def runs_on(python_range: str, version: str) -> bool:
    """Whether a version of Python is in a range."""
    from packaging.specifiers import SpecifierSet

    return not python_range or SpecifierSet(python_range).contains(version, prereleases=True)


def _metadata_error(name: str, problems: list[Problem]) -> Invalid:
    return Invalid(f"the metadata in {printable(name)} cannot be used", problems[:50], code="server.bad_metadata")
