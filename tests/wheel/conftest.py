"""Wheels of this source, built as a release would be, and the programs that people install them with."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).parent / "uv")
OLDER, NEWER = "0.0.1", "0.0.2"
PATIENCE = 600  # seconds to fetch and install all libraries
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "node_modules", ".*")
# How this machine reaches the package index; nothing else of this environment is passed on.
_NETWORK = ("SSL_CERT_FILE", "PIP_CERT", "PIP_INDEX_URL", "UV_INDEX_URL", "HTTPS_PROXY", "https_proxy", "NO_PROXY")


def run(command: list[str], environment: dict[str, str], cwd: Path) -> str:
    done = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Machine:
    """A user's directory without a checkout, a compiler's environment or anything of this test's Python."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def programs(self) -> Path:
        return self.home / ".local" / "bin"

    @property
    def environment(self) -> dict[str, str]:
        reached = {name: os.environ[name] for name in _NETWORK if name in os.environ}
        if "PIP_CERT" in reached:
            reached.setdefault("SSL_CERT_FILE", reached["PIP_CERT"])
        # Nothing is built: a machine that a wheel is installed on may have no compiler.
        reached |= {"PIP_ONLY_BINARY": ":all:", "UV_NO_BUILD": "1", "UV_PYTHON_DOWNLOADS": "never"}
        reached |= {
            "HOME": str(self.home),
            "PATH": f"{self.programs}:/usr/bin:/bin",
            "TERM": "xterm",
            "LANG": "C.UTF-8",
        }
        reached |= {"PADDOCK_HTTP_ADDRESS": "127.0.0.1:0", "PADDOCK_HTTP_FIRST_LINK": "false"}
        return reached | self.variables

    def __call__(self, *command: object) -> str:
        return run([str(word) for word in command], self.environment, self.home)


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """This source as two releases, by version."""
    folder = tmp_path_factory.mktemp("wheels")
    built: dict[str, Path] = {}
    for version in (OLDER, NEWER):
        source = folder / version
        source.mkdir()
        for name in ("src", "examples"):
            shutil.copytree(ROOT / name, source / name, ignore=_LEFT_OUT)
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, source / name)
        init = source / "src" / "paddock" / "__init__.py"
        text, count = re.subn(r'__version__ = "[^"]+"', f'__version__ = "{version}"', init.read_text())
        assert count == 1
        init.write_text(text)
        run([UV, "build", "--wheel", "--out-dir", str(folder), str(source)], dict(os.environ), folder)
        (built[version],) = folder.glob(f"paddock-{version}-*.whl")
        shutil.rmtree(source)  # nothing may still come from there
    return built


Install = Callable[[Path], object]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "user").mkdir()
    return Machine(tmp_path / "user")


@pytest.fixture
def install(machine: Machine, request: pytest.FixtureRequest) -> Install:
    """What the installation page says to type: first, and again for another version."""
    if request.param == "uv tool":
        return lambda wheel: machine(UV, "tool", "install", "--upgrade", wheel)
    machine(UV, "tool", "install", "pipx")
    return lambda wheel: machine("pipx", "install", "--force", wheel)
