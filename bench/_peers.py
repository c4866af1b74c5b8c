"""Other projects to be measured against, each in an environment of its own, installed when first needed."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

_HERE = Path(__file__).parents[1] / ".run" / "peers"


def python_with(package: str) -> Path:
    """An interpreter that can import this package of the ordinary registry."""
    folder = _HERE / package
    python = folder / "bin" / "python"
    done = folder / ".installed"
    if not done.exists():
        print(f"installing {package} …", file=sys.stderr)
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", package], check=True, stdout=sys.stderr)
        done.touch()
    return python


def version_of(package: str) -> str:
    """Which version it is."""
    asked = f"import importlib.metadata as m; print(m.version({package!r}))"
    told = subprocess.run([python_with(package), "-c", asked], check=True, capture_output=True, text=True)
    return told.stdout.strip()
