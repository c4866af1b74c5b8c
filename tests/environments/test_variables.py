"""Variables of a server from a registry: written out where everybody may see them, asked for where nobody may."""

from __future__ import annotations

import pytest
from tests.environments.shops import PythonIndex

from fixtures.commands import Paddock
from paddock.host.wiring.local_store import open_local_store
from paddock.manifest.model import CommandRuntime
from paddock.plugins.store.lookup import manifest_of
from paddock.plugins.store.rows import current_versions

SERVER = "pypi:tiny-server"
FILE = "DATA_FILE=config:/data.json"


def variables(paddock: Paddock) -> dict[str, str]:
    """The variables in the manifest that was consented to."""
    with open_local_store(paddock.environment, paddock.home) as host:
        runtime = manifest_of(host.plugins.database.read(current_versions)["tiny-server"]).runtime
    assert isinstance(runtime, CommandRuntime)
    return dict(runtime.env)


@pytest.mark.slow
def test_a_variable_is_shown_before_consent_and_survives_an_upgrade(paddock: Paddock, index: PythonIndex) -> None:
    asked = paddock.quickly("plugin", "install", SERVER, "--env", FILE, "--json", code=4)
    runs = next(one for one in asked.error["details"]["screen"]["sections"] if one["title"] == "What it runs")
    assert f"With the variables: {FILE}" in runs["lines"]
    assert f"--env={FILE}" in asked.error["hint"]

    paddock.quickly("plugin", "install", SERVER, "--env", FILE, "--env", "API_KEY", "--yes")
    before = variables(paddock)
    index.wheel("tiny-server", "1.1.0", needs=("tiny-lib>=2",), Summary="Answers", License="MIT")
    assert paddock.quickly("plugin", "upgrade", "tiny-server", "--yes", "--json").json["version"] == "1.1.0"
    assert variables(paddock) == before == {"DATA_FILE": "config:/data.json", "API_KEY": "${user_config.API_KEY}"}


def test_a_variable_without_a_value_is_one_that_configure_asks_for_and_nobody_is_shown(
    paddock: Paddock, index: PythonIndex
) -> None:
    paddock.quickly("plugin", "install", SERVER, "--env", "API_KEY", "--yes")
    [field] = paddock.quickly("plugin", "configure", "tiny-server", "--json").json["fields"]
    assert (field["key"], field["secret"], field["required"]) == ("API_KEY", True, True)


def test_a_key_on_the_command_line_is_refused_with_what_to_write_instead(paddock: Paddock, index: PythonIndex) -> None:
    refused = paddock.quickly("plugin", "install", SERVER, "--env", "API_KEY=hush", "--yes", "--json", code=6).error
    assert refused["code"] == "environment.secret_variable"
    assert "name the variable without a value" in refused["hint"]
    assert "hush" not in str(refused)
    assert not paddock.listed()
