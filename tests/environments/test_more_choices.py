"""Giving an installed server of a registry more, without typing again what it has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock
from paddock.host.wiring.local_store import open_local_store
from paddock.manifest.model import CommandRuntime
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import current_versions

SERVER = "pypi:tiny-server"
ONE, TWO, THREE = "read:fs:/srv/one", "read:fs:/srv/two", "read:fs:/srv/three"


def chosen(paddock: Paddock) -> dict[str, Any]:
    """What the installed server has that a person chose."""
    with open_local_store(paddock.environment, paddock.home) as host:
        manifest = manifest_of(host.plugins.database.read(current_versions)["tiny-server"])
    assert isinstance(manifest.runtime, CommandRuntime)
    schema = manifest.system_config_schema or {}
    return {
        "arguments": manifest.runtime.command[1:],
        "variables": dict(manifest.runtime.env),
        "capabilities": [str(one) for one in manifest.capabilities],
        "fields": list(schema.get("properties", {})),
    }


@pytest.fixture
def installed(paddock: Paddock, index: PythonIndex) -> Paddock:
    said = ["--arg", "/srv/one", "--env", "MODE=slow", "--env", "API_KEY", "--capability", ONE]
    paddock.quickly("plugin", "install", SERVER, *said, "--yes")
    return paddock


def test_an_upgrade_adds_a_folder_to_what_the_server_was_installed_with_and_shows_the_difference(
    installed: Paddock,
) -> None:
    more = ["--arg", "/srv/two", "--env", "MODE=fast", "--env", "OTHER_KEY", "--capability", TWO]
    waits = installed.quickly("plugin", "upgrade", "tiny-server", *more, "--json", code=4)
    assert f"+ {TWO}" in waits.err
    assert f"- {ONE}" not in waits.err
    line = f"paddock plugin upgrade tiny-server --arg=/srv/two --env=MODE=fast --env=OTHER_KEY --capability={TWO} --yes"
    assert line in waits.error["hint"]

    installed.quickly("plugin", "upgrade", "tiny-server", *more, "--yes")
    assert chosen(installed) == {
        "arguments": ("/srv/one", "/srv/two"),
        "variables": {
            "MODE": "fast",
            "API_KEY": "${user_config.API_KEY}",
            "OTHER_KEY": "${user_config.OTHER_KEY}",
        },
        "capabilities": [ONE, TWO],
        "fields": ["API_KEY", "OTHER_KEY"],
    }


@pytest.mark.slow
def test_the_same_package_installed_again_keeps_every_option_that_is_not_given(installed: Paddock) -> None:
    before = chosen(installed)
    assert installed.quickly("plugin", "install", SERVER, "--yes", "--json").json["action"] == "unchanged"

    said = installed.quickly("plugin", "install", SERVER, "--capability", TWO, "--capability", THREE, code=4)
    assert f"{SERVER} --capability={TWO} --capability={THREE} --yes" in said.err
    installed.quickly("plugin", "install", SERVER, "--capability", TWO, "--capability", THREE, "--yes")
    assert chosen(installed) == before | {"capabilities": [TWO, THREE]}
    installed.quickly("plugin", "install", SERVER, "--env", "MODE=fast", "--yes")
    assert chosen(installed) == before | {
        "capabilities": [TWO, THREE],
        "variables": {"MODE": "fast"},
        "fields": [],
    }


def test_a_folder_that_the_server_is_told_of_and_not_granted_is_told_with_the_option_that_grants_it(
    paddock: Paddock, index: PythonIndex, tmp_path: Path
) -> None:
    asked = paddock.quickly("plugin", "install", SERVER, "--arg", tmp_path, code=4)
    assert f"{SERVER} --capability read:fs:{tmp_path}\n" in asked.err
    asked = paddock.quickly(
        "plugin", "install", SERVER, "--arg", tmp_path, "--capability", f"write:fs:{tmp_path}", code=4
    )
    assert "is named and not granted" not in asked.err


def test_only_a_server_of_a_registry_is_given_more_by_an_upgrade(paddock: Paddock, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    manifest = "paddock: 1\nname: own\nversion: 1.0.0\ndescription: Own\nruntime: {command: [cat]}\n"
    (own / "paddock.yaml").write_text(manifest)
    paddock.quickly("plugin", "install", own, "--yes")
    said = paddock.quickly("plugin", "upgrade", "own", "--capability", ONE, "--yes", "--json", code=6)
    assert said.error["code"] == "source.not_a_registry"
