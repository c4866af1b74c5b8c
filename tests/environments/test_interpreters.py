"""The interpreter that environments are built for."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from pathlib import Path

import pytest
from tests.environments.looking import command_of
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock

SOURCE = Path(__file__).parents[2] / "src"


@pytest.mark.slow
def test_a_paddock_in_an_environment_of_copied_files_builds_environments_that_run(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    copied = tmp_path / "copied"
    subprocess.run([sys.executable, "-m", "venv", "--copies", "--without-pip", copied], check=True, timeout=60)
    python = copied / "bin" / "python"
    assert not python.is_symlink()
    paths = os.pathsep.join([str(SOURCE), *site.getsitepackages()])
    subprocess.run(
        [python, "-m", "paddock.cli", "plugin", "install", "pypi:tiny-server", "--yes"],
        env={**paddock.environment, "PYTHONPATH": paths},
        check=True,
        timeout=120,
    )
    checked = subprocess.run(
        [python, "-m", "paddock.cli", "doctor", "--json"],
        env={**paddock.environment, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=120,
    )
    cage = next(check for check in json.loads(checked.stdout)["checks"] if check["name"] == "cage")
    assert cage["status"] == "ok", cage
    # The same packages and the same interpreter are the same environment, whichever way the interpreter was found.
    done = subprocess.run(command_of(paddock, "tiny-server"), env={}, capture_output=True, text=True, timeout=30)
    assert (done.stdout.strip(), done.stderr) == ("42", "")
