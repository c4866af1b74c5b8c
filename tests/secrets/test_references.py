"""`${secret:NAME}` in local.toml gives a plugin one of its tenant's secrets, and stands in the file in its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.host.conftest import Home

from fixtures.ledger_entries import list_recent
from paddock import Config, open_host
from paddock.core.clock import SystemRandom
from paddock.core.errors import PaddockError
from paddock.core.ids import DEFAULT_TENANT
from paddock.secrets.wrapping_keys import build_wrapping_keys
from paddock.store.database import open_direct

from .safe import Safe, open_safe

SCHEMA = {"type": "object", "properties": {"api_key": {"type": "string"}}}
ENTRY = '\n[plugins."parrot"]\ninstalled = "1.0.0"\nlocal = true\napi_key = "Bearer ${secret:parrot.key}"\n'


def keep(home: Home, value: str, owner: str = "") -> None:
    state = home.path / "state"
    with open_safe(home.path / "data" / "paddock.db", state, build_wrapping_keys({}, state, SystemRandom())) as safe:
        Safe(safe.database, safe.keys, DEFAULT_TENANT).set("parrot.key", value, owner)


@pytest.fixture
def home(tmp_path: Path) -> Home:
    made = Home(tmp_path)
    made.install(system_config_schema=SCHEMA)
    (made.path / "local.toml").write_text(ENTRY)
    (made.path / "local.toml").chmod(0o600)
    return made


async def test_a_plugin_is_configured_with_a_secret_that_its_file_does_not_hold(home: Home) -> None:
    keep(home, "hunter2 ${not_a_variable}")
    async with open_host(Config(home=home.path, environ={})) as host:
        answer = await host.call("parrot.say", {"text": "x"})
    assert answer["config"] == {"api_key": "Bearer hunter2 ${not_a_variable}"}
    assert "hunter2" not in (home.path / "local.toml").read_text()


async def test_a_secret_that_is_not_set_or_is_a_persons_is_named(home: Home) -> None:
    keep(home, "hunter2", "user:ann")
    async with open_host(Config(home=home.path, environ={})) as host:
        with pytest.raises(PaddockError) as refused:
            await host.call("parrot.say", {"text": "x"})
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(lambda tx: list_recent(tx, plugin="parrot"))
    told = [entry.data["errors"] for entry in entries if entry.type == "plugin.config_validation_failed"]
    assert refused.value.details["reason_code"] == "config.variable_unset"
    assert told == [['plugins."parrot".api_key: the secret parrot.key is not set — Set the secret parrot.key.']]
