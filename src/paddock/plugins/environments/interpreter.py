"""The Python that environments are made for: the one that this host itself runs on, without its virtual environment."""

from __future__ import annotations

import importlib.util
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

PYTHON = "bin/python"
"""The interpreter of an environment: the one link in it."""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python interpreter, by the file that it is."""

    path: Path
    version: str  # 3.11.7
    tag: str  # cpython-311: what compiled files and extension modules are made for

    @property
    def short(self) -> str:
        """`3.11`, as in the names of directories."""
        return ".".join(self.version.split(".")[:2])


def this_interpreter() -> Interpreter:
    return Interpreter(
        Path(sys.executable).resolve(), platform.python_version(), sys.implementation.cache_tag or "unknown"
    )


def quiet_command(interpreter: Interpreter) -> list[str]:
    """The interpreter as the host itself may run it beside packages of strangers: with nothing but its own modules.

    `-I` alone still loads `site`, and that runs what any package puts into a `.pth` file.
    """
    return [str(interpreter.path), "-I", "-S"]


def make_virtual(root: Path, interpreter: Interpreter) -> None:
    """Make a virtual environment of a directory that holds the packages already. Only cages run its `python`."""
    (root / "lib" / f"python{interpreter.short}" / "site-packages").mkdir(parents=True, exist_ok=True)
    (root / "pyvenv.cfg").write_text(
        f"home = {interpreter.path.parent}\ninclude-system-site-packages = false\nversion = {interpreter.version}\n"
    )
    (root / "bin").mkdir()
    (root / PYTHON).symlink_to(interpreter.path)


def pip_place() -> Path:
    """The directory that pip can be imported from."""
    found = importlib.util.find_spec("pip")
    assert found is not None and found.origin is not None, "pip is among our own requirements"
    return Path(found.origin).parents[1]
