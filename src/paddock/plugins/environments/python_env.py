"""The Python that environments are built for: the host's own interpreter, without its virtual environment."""

from __future__ import annotations

import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from paddock.core.errors import Invalid, Problem
from paddock.manifest.command import program_name_problem
from paddock.manifest.registry_package import canonical_python_name

VENV_PYTHON = "bin/python"
"""The interpreter of an environment: the only link in it."""


class Interpreter(Struct, frozen=True):
    """A Python interpreter, by its resolved file."""

    path: Path
    version: str  # 3.11.7
    tag: str  # e.g. cpython-311, which compiled files and extension modules depend on

    @property
    def major_minor(self) -> str:
        """E.g. `3.11`, as in the names of directories."""
        return ".".join(self.version.split(".")[:2])


def host_interpreter() -> Interpreter:
    # In a virtual environment made with --copies, the interpreter is a copy that works nowhere else: its standard
    # library is found by the `pyvenv.cfg` beside it. So the one that the copy was made of is taken.
    base = Path(getattr(sys, "_base_executable", None) or sys.executable)
    path = base if base.exists() else Path(sys.executable)
    return Interpreter(path.resolve(), platform.python_version(), sys.implementation.cache_tag or "unknown")


def isolated_command(interpreter: Interpreter) -> list[str]:
    """Return the interpreter's command line for use by the host beside untrusted packages: only its own modules load.

    `-I` alone still loads `site`, and that runs what any package puts into a `.pth` file.
    """
    return [str(interpreter.path), "-I", "-S"]


def make_virtualenv(root: Path, interpreter: Interpreter) -> None:
    """Turn a directory that already holds packages into a virtual environment. Only cages run its `python`."""
    (root / "lib" / f"python{interpreter.major_minor}" / "site-packages").mkdir(parents=True, exist_ok=True)
    (root / "pyvenv.cfg").write_text(
        f"home = {interpreter.path.parent}\ninclude-system-site-packages = false\nversion = {interpreter.version}\n"
    )
    (root / "bin").mkdir()
    (root / VENV_PYTHON).symlink_to(interpreter.path)


def uv_program() -> Path:
    """Return the program uv, which the package of that name brings."""
    from uv import find_uv_bin

    return Path(find_uv_bin())


_ENTRY_POINT = re.compile(
    r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\s*\[.*\])?", re.ASCII
)
_MAX_ENTRY_POINTS_CHARS = 256 * 1024
_MAX_METADATA_CHARS = 1024 * 1024


def parse_console_scripts(text: str) -> dict[str, str]:
    """Parse the programs of one package: name to `module:function`. Malformed lines are left out."""
    import configparser  # lazily: few commands read entry points

    parser = configparser.ConfigParser(delimiters=("=",), interpolation=None, strict=False)
    parser.optionxform = str  # pyright: ignore[reportAttributeAccessIssue] - keeps the case of names, as documented
    try:
        parser.read_string(text[:_MAX_ENTRY_POINTS_CHARS])
    except configparser.Error:
        return {}
    if not parser.has_section("console_scripts"):
        return {}
    scripts: dict[str, str] = {}
    for name, target in parser.items("console_scripts"):
        match = _ENTRY_POINT.fullmatch(target.strip())
        if match and program_name_problem(name) is None:
            scripts[name] = f"{match[1]}:{match[2]}"
    return scripts


def unpacked_programs(folder: Path) -> dict[str, str]:
    """Return the programs of the one package that was unpacked into a folder."""
    programs: dict[str, str] = {}
    for file in sorted(folder.glob("*.dist-info/entry_points.txt")):
        programs |= parse_console_scripts(_read_start(file, _MAX_ENTRY_POINTS_CHARS))
    return programs


def read_metadata(folder: Path, package: str) -> dict[str, list[str]]:
    """Return the headers in the `METADATA` of the one package that was unpacked into a folder, by lower-case names.

    Raises:
        Invalid: there are none of this package.
    """
    headers: dict[str, list[str]] = {}
    for file in sorted(folder.glob("*.dist-info/METADATA")):
        headers = parse_headers(_read_start(file, _MAX_METADATA_CHARS))
    if canonical_python_name("".join(headers.get("name", ()))) != canonical_python_name(package):
        problem = Problem(package, "is not a wheel", code="not_a_wheel")
        raise Invalid("the package cannot be read", [problem], code="environment.bad_package")
    return headers


def parse_headers(text: str) -> dict[str, list[str]]:
    """Parse the headers above the first empty line, by lower-case names; a line that begins with a space goes on with
    the one before it."""
    headers: dict[str, list[str]] = {}
    values: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            break
        if line[0] in " \t" and values:
            values[-1] += "\n" + line.strip()
        else:
            name, _, value = line.partition(":")
            values = headers.setdefault(name.strip().lower(), [])
            values.append(value.strip())
    return headers


def _read_start(file: Path, max_chars: int) -> str:
    with file.open(encoding="utf-8", errors="replace") as opened:
        return opened.read(max_chars)


def installed_programs(root: Path, ranks: Mapping[str, int]) -> dict[str, str]:
    """Return the programs of all packages below `root`; among equal names, the one whose package ranks first wins."""
    candidates: list[tuple[int, str, dict[str, str]]] = []
    for file in root.glob("lib*/python*/site-packages/*.dist-info/entry_points.txt"):
        package = file.parent.name.removesuffix(".dist-info").rpartition("-")[0]
        rank = ranks.get(canonical_python_name(package), len(ranks))
        candidates.append((rank, package, parse_console_scripts(_read_start(file, _MAX_ENTRY_POINTS_CHARS))))
    merged: dict[str, str] = {}
    for _, _, scripts in sorted(candidates, key=lambda one: one[:2], reverse=True):
        merged |= scripts
    return merged


def launcher_script(target: str) -> str:
    """Return a script that runs `module:function`, like pip's but without an interpreter path."""
    module, _, function = target.partition(":")
    root_name = function.partition(".")[0]
    return f"import sys\n\nfrom {module} import {root_name}\n\nif __name__ == '__main__':\n    sys.exit({function}())\n"
