"""The Python that environments are made for: the one that this host itself runs on, without its virtual environment."""

from __future__ import annotations

import importlib.util
import platform
import sys
from dataclasses import dataclass
from pathlib import Path


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


def make_virtual(root: Path, interpreter: Interpreter) -> Path:
    """Lay out an empty virtual environment, and give its `python`."""
    (root / "bin").mkdir(parents=True)
    (root / "lib" / f"python{interpreter.short}" / "site-packages").mkdir(parents=True)
    (root / "pyvenv.cfg").write_text(
        f"home = {interpreter.path.parent}\ninclude-system-site-packages = false\nversion = {interpreter.version}\n"
    )
    python = root / "bin" / "python"
    python.symlink_to(interpreter.path)
    return python


def pip_place() -> Path:
    """The directory that pip can be imported from."""
    found = importlib.util.find_spec("pip")
    assert found is not None and found.origin is not None, "pip is among our own requirements"
    return Path(found.origin).parents[1]
