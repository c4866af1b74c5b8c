"""A Python plugin's own `requirements.txt`: installed for it only where whoever runs the host allows that."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.environments.looking import environments, printed
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock
from fixtures.packages import shu, write_file, write_json
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.store.node_files import find_environment
from paddock.plugins.store.rows import current_versions


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    root = shu(tmp_path / "shu")
    write_file(root / "requirements.txt", "# what it needs\ntiny-lib >= 2 ; python_version >= '3.8'\n")
    return root


def allow(paddock: Paddock) -> None:
    (paddock.home / "config.toml").write_text("[plugins]\nenvironments = true\n")


@pytest.mark.req("S-08", "off by default")
def test_requirements_are_left_out_and_that_is_said_unless_an_administrator_allows_them(
    paddock: Paddock, index: PythonIndex, plugin: Path
) -> None:
    said = paddock.quickly("plugin", "install", plugin, "--yes")
    assert "packages that it asks for will not be there" in said.err
    assert "plugins.environments = true" in said.err
    assert index.requests == []
    assert environments(paddock) == []


@pytest.mark.req("S-08", "where an administrator allows it")
def test_where_they_are_allowed_they_are_pinned_shown_and_installed_for_this_plugin_alone(
    paddock: Paddock, index: PythonIndex, plugin: Path
) -> None:
    allow(paddock)
    asked = paddock.quickly("plugin", "install", plugin, "--json", code=4)
    lines = [line for one in asked.error["details"]["screen"]["sections"] for line in one["lines"]]
    assert "The 1 package that it asks for" in lines
    paddock.quickly("plugin", "install", plugin, "--yes")
    tree = paddock.trees / "shu_notes" / "1.0.0"
    assert not list(tree.rglob("*.lock")), "the package stays what its author made"
    with open_local_store(paddock.environment, paddock.home) as host:
        row = host.plugins.database.read(current_versions)["shu_notes"]
        environment = find_environment(host.plugins, row)
    assert environment is not None
    asks = [str(environment.python), "-c", "import tiny_lib; print(tiny_lib.ANSWER)"]
    assert subprocess.run(asks, capture_output=True, text=True, timeout=30).stdout.strip() == "42"
    paddock.quickly("plugin", "remove", "shu_notes", "--yes")
    assert environments(paddock) == []


@pytest.mark.req("S-08", "off by default")
def test_a_project_cannot_allow_it(paddock: Paddock, index: PythonIndex, plugin: Path) -> None:
    write_file(paddock.home.parent / ".paddock" / "config.toml", "[plugins]\nenvironments = true\n")
    said = paddock("plugin", "install", plugin, "--yes")
    assert "will not be there" in said.err
    assert index.requests == []


@pytest.mark.parametrize(
    "line",
    ["--index-url http://evil", "-e .", "-r other.txt", "x @ http://evil/x.whl", "./x.whl", "git+https://e/x.git"],
)
def test_a_requirements_file_may_name_packages_and_nothing_else(
    paddock: Paddock, index: PythonIndex, plugin: Path, line: str
) -> None:
    allow(paddock)
    write_file(plugin / "requirements.txt", f"tiny-lib\n{line}\n")
    said = paddock.quickly("plugin", "install", plugin, "--yes", "--json", code=6)
    assert said.error["code"] == "environment.bad_requirements"
    assert said.error["errors"][0]["path"] == "requirements.txt:2"
    assert index.requests == []


def test_a_package_with_a_lock_of_its_own_needs_the_same_word(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    paddock.quickly("plugin", "install", "pypi:tiny-server", "--yes")
    lock = (paddock.trees / "tiny-server" / "1.0.0" / "requirements.lock").read_text()
    mine = tmp_path / "mine"
    runtime = {"command": ["environment:tiny-server"]}
    write_json(
        mine / "paddock.yaml",
        {"paddock": 1, "name": "mine", "version": "1.0.0", "description": "x", "runtime": runtime},
    )
    unpinned = paddock.quickly("plugin", "check", mine)
    assert "nothing pins" in unpinned.out + unpinned.err
    write_file(mine / "requirements.lock", lock)
    refused = paddock.quickly("plugin", "install", mine, "--yes", "--json", code=6)
    assert refused.error["code"] == "environment.not_allowed"
    allow(paddock)
    paddock.quickly("plugin", "install", mine, "--yes")
    assert printed(paddock, "mine") == "42"
    write_file(mine / "requirements.lock", lock + "tiny-lib>=1\n--index-url http://evil\n")
    loose = paddock.quickly("plugin", "install", mine, "--yes", "--json", code=6)
    assert loose.error["code"] == "environment.bad_lock"
    assert len(loose.error["errors"]) == 2


def test_a_command_names_a_program_of_its_environment_plainly(paddock: Paddock, tmp_path: Path) -> None:
    runtime = {"command": ["environment:../../bin/sh"]}
    write_json(
        tmp_path / "p" / "paddock.yaml",
        {"paddock": 1, "name": "p", "version": "1.0.0", "description": "x", "runtime": runtime},
    )
    said = paddock.quickly("plugin", "check", tmp_path / "p", "--json", code=6)
    assert "environment:" in str(said.json)
