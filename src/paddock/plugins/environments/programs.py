"""The programs that Python packages bring: read from `entry_points.txt`, in a wheel or installed.

Nothing is imported.
"""

from __future__ import annotations

import configparser
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

from paddock.core.errors import Invalid, Problem

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TARGET = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\s*\[.*\])?", re.ASCII)
_LONGEST = 256 * 1024


class _AsWritten(configparser.ConfigParser):
    """Leaves names in the case they have."""

    def optionxform(self, optionstr: str) -> str:
        return optionstr


def console_scripts(text: str) -> dict[str, str]:
    """The programs of one package: name to `module:function`. What is not such a line is left out."""
    parser = _AsWritten(delimiters=("=",), interpolation=None, strict=False)
    try:
        parser.read_string(text[:_LONGEST])
    except configparser.Error:
        return {}
    if not parser.has_section("console_scripts"):
        return {}
    found: dict[str, str] = {}
    for name, target in parser.items("console_scripts"):
        match = _TARGET.fullmatch(target.strip())
        if match and _NAME.fullmatch(name):
            found[name] = f"{match[1]}:{match[2]}"
    return found


def wheel_programs(wheel: Path) -> dict[str, str]:
    """The programs of a wheel.

    Raises:
        Invalid: it is no wheel.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if re.fullmatch(r"[^/]+\.dist-info/entry_points\.txt", name):
                    with archive.open(name) as file:
                        return console_scripts(file.read(_LONGEST).decode("utf-8", "replace"))
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        problem = Problem(wheel.name, "is not a wheel", code="not_a_wheel")
        raise Invalid("the package cannot be read", [problem], code="environment.bad_package") from error
    return {}


def installed_programs(root: Path, names: Mapping[str, int]) -> dict[str, str]:
    """The programs of all packages below `root`; of two with one name, the one whose package ranks first in `names`."""
    found: list[tuple[int, str, dict[str, str]]] = []
    for file in root.glob("lib*/python*/site-packages/*.dist-info/entry_points.txt"):
        package = file.parent.name.removesuffix(".dist-info").rpartition("-")[0]
        rank = names.get(re.sub(r"[-_.]+", "-", package).lower(), len(names))
        with file.open(encoding="utf-8", errors="replace") as opened:
            found.append((rank, package, console_scripts(opened.read(_LONGEST))))
    merged: dict[str, str] = {}
    for _, _, scripts in sorted(found, key=lambda one: one[:2], reverse=True):
        merged |= scripts
    return merged


def launcher(target: str) -> str:
    """A script that runs `module:function`, as pip would write it but for the path of an interpreter."""
    module, _, function = target.partition(":")
    first = function.partition(".")[0]
    return f"import sys\n\nfrom {module} import {first}\n\nif __name__ == '__main__':\n    sys.exit({function}())\n"
