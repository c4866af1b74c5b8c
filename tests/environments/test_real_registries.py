"""Servers that people use, from the registries they are in."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.environments import looking

from fixtures.commands import Paddock

pytestmark = pytest.mark.registry

PYTHON = ("git", "time", "fetch", "calculator", "sqlite", "duckdb")
NODE = ("everything", "filesystem", "memory", "sequential-thinking")
OLDER = {"sqlite": ("--with", "mcp<2"), "duckdb": ("--with", "mcp<2")}  # written for an older library of the protocol


@pytest.fixture
def patient(tmp_path: Path) -> Paddock:
    (tmp_path / "home").mkdir()
    return Paddock(tmp_path / "home")


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_server_is_installed_from_the_index(patient: Paddock, name: str) -> None:
    done = patient.quickly("plugin", "install", f"pypi:mcp-server-{name}", *OLDER.get(name, ()), "--yes", "--json").json
    assert done["action"] == "installed"
    lock = (patient.trees / done["name"] / done["version"] / "requirements.lock").read_text().splitlines()
    assert len(lock) > 10
    assert all("--hash=sha256:" in line for line in lock)
    assert Path(looking.command_of(patient, done["name"])[1]).is_file()
    patient.quickly("plugin", "remove", done["name"], "--yes")
    assert looking.environments(patient) == []


@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed here")
@pytest.mark.parametrize("name", NODE)
def test_a_node_server_is_installed_from_the_registry(patient: Paddock, name: str) -> None:
    package = f"npm:@modelcontextprotocol/server-{name}"
    done = patient.quickly("plugin", "install", package, "--yes", "--json").json
    assert (done["name"], done["action"]) == (f"server-{name}", "installed")
    assert Path(looking.command_of(patient, done["name"])[1]).is_file()
    patient.quickly("plugin", "remove", done["name"], "--yes")
    assert looking.environments(patient) == []
