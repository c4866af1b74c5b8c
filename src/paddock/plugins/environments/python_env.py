"""The Python that environments are built for: the host's own interpreter, without its virtual environment."""

from __future__ import annotations

import configparser
import importlib.util
import platform
import re
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paddock.core.errors import Invalid, Problem
from paddock.manifest.command import program_name_problem

VENV_PYTHON = "bin/python"
"""The interpreter of an environment: the only link in it."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter, by its resolved file."""

    path: Path
    version: str  # 3.11.7
    tag: str  # e.g. cpython-311, which compiled files and extension modules depend on

    @property
    def major_minor(self) -> str:
        """E.g. `3.11`, as in the names of directories."""
        return ".".join(self.version.split(".")[:2])


def host_interpreter() -> Interpreter:
    return Interpreter(
        Path(sys.executable).resolve(), platform.python_version(), sys.implementation.cache_tag or "unknown"
    )


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


def pip_directory() -> Path:
    """Return the directory that pip can be imported from."""
    spec = importlib.util.find_spec("pip")
    assert spec is not None and spec.origin is not None, "pip is among our own requirements"
    return Path(spec.origin).parents[1]


_ENTRY_POINT = re.compile(
    r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\s*\[.*\])?", re.ASCII
)
_MAX_ENTRY_POINTS_BYTES = 256 * 1024


class _CaseSensitiveParser(configparser.ConfigParser):
    """A parser that keeps the case of names."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def parse_console_scripts(text: str) -> dict[str, str]:
    """Parse the programs of one package: name to `module:function`. Malformed lines are left out."""
    parser = _CaseSensitiveParser(delimiters=("=",), interpolation=None, strict=False)
    try:
        parser.read_string(text[:_MAX_ENTRY_POINTS_BYTES])
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


def wheel_programs(wheel: Path) -> dict[str, str]:
    """Return the programs of a wheel.

    Raises:
        Invalid: it is not a wheel.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", name):
                    with archive.open(name) as file:
                        return parse_console_scripts(file.read(_MAX_ENTRY_POINTS_BYTES).decode("utf-8", "replace"))
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        problem = Problem(wheel.name, "is not a wheel", code="not_a_wheel")
        raise Invalid("the package cannot be read", [problem], code="environment.bad_package") from error
    return {}


def installed_programs(root: Path, ranks: Mapping[str, int]) -> dict[str, str]:
    """Return the programs of all packages below `root`; among equal names, the one whose package ranks first wins."""
    candidates: list[tuple[int, str, dict[str, str]]] = []
    for file in root.glob("lib*/python*/site-packages/*.dist-info/entry_points.txt"):
        package = file.parent.name.removesuffix(".dist-info").rpartition("-")[0]
        rank = ranks.get(re.sub(r"[-_.]+", "-", package).lower(), len(ranks))
        with file.open(encoding="utf-8", errors="replace") as opened:
            candidates.append((rank, package, parse_console_scripts(opened.read(_MAX_ENTRY_POINTS_BYTES))))
    merged: dict[str, str] = {}
    for _, _, scripts in sorted(candidates, key=lambda one: one[:2], reverse=True):
        merged |= scripts
    return merged


def launcher_script(target: str) -> str:
    """Return a script that runs `module:function`, like pip's but without an interpreter path."""
    module, _, function = target.partition(":")
    root_name = function.partition(".")[0]
    return f"import sys\n\nfrom {module} import {root_name}\n\nif __name__ == '__main__':\n    sys.exit({function}())\n"
