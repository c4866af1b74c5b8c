"""What `paddock doctor` says of secrets: whether their key is here, and what plugins refer to and is not set."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.parrot import parrot
from paddock.store.database import open_direct

SCHEMA = {"type": "object", "properties": {"api_key": {"type": "string"}, "other": {"type": "string"}}}
UNSET = 'plugins."parrot".api_key: the environment variable PARROT_KEY is not set — export PARROT_KEY=…'


@pytest.fixture
def paddock(tmp_path: Path) -> Paddock:
    return Paddock(tmp_path / "home")


def looked(paddock: Paddock, name: str, code: int = 0) -> dict[str, Any]:
    (found,) = [one for one in paddock.quickly("doctor", "--json", code=code).json["checks"] if one["name"] == name]
    return found


def test_a_key_for_secrets_that_is_gone_is_a_failure_and_is_fine_once_it_is_back(paddock: Paddock) -> None:
    assert looked(paddock, "secrets")["found"] == "none are kept yet"
    paddock.piped("hunter2", "secret", "set", "api_key")
    assert looked(paddock, "secrets")["found"].endswith("which is here (file)")

    keys = paddock.home / "state" / "keys"
    (keys / "secrets").rename(keys / "away")
    found = looked(paddock, "secrets", code=1)
    assert (found["status"], found["code"]) == ("fail", "secret.key_missing")
    assert "put " in found["fix"]

    (keys / "away").rename(keys / "secrets")
    assert looked(paddock, "secrets")["status"] == "ok"


def test_a_passphrase_that_nobody_can_be_asked_for_is_no_failure(paddock: Paddock, tmp_path: Path) -> None:
    file = tmp_path / "passphrase"
    file.write_text("correct horse\n")
    file.chmod(0o600)
    given = {"PADDOCK_SECRETS_KEY": "passphrase", "PADDOCK_SECRETS_PASSPHRASE_FILE": str(file)}
    dataclasses.replace(paddock, more=given).piped("hunter2", "secret", "set", "api_key")
    assert looked(dataclasses.replace(paddock, more=given), "secrets")["found"].endswith("which is here (passphrase)")

    assert looked(paddock, "secrets")["found"].endswith("a passphrase that is not given here")
    file.write_text("wrong horse\n")
    found = looked(dataclasses.replace(paddock, more=given), "secrets", code=1)
    assert (found["status"], found["code"]) == ("fail", "secret.key")


def test_a_key_that_is_gone_is_a_failure_also_where_the_one_in_use_is_elsewhere(paddock: Paddock) -> None:
    paddock.piped("hunter2", "secret", "set", "api_key")
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        # As a rotation that was killed leaves it: the key before is still noted, and secrets may be under it.
        database.write(
            lambda tx: (
                tx.execute("UPDATE secret_keys SET in_use = 0"),
                tx.execute(
                    "INSERT INTO secret_keys (id, source, salt, in_use, made_at) VALUES (?, ?, ?, 1, '2026-01-01')",
                    ("0" * 16, "passphrase", b"salt"),
                ),
            )
        )
    assert looked(paddock, "secrets")["found"].endswith("a passphrase that is not given here")

    keys = paddock.home / "state" / "keys"
    (keys / "secrets").rename(keys / "away")
    assert looked(paddock, "secrets", code=1)["code"] == "secret.key_missing"


def test_what_a_plugin_refers_to_and_is_not_set_is_named_by_every_command_without_a_daemon(
    paddock: Paddock, tmp_path: Path
) -> None:
    paddock("plugin", "install", parrot(tmp_path / "parrot", system_config_schema=SCHEMA), "--yes")
    paddock.piped("${PARROT_KEY}", "plugin", "configure", "parrot", "api_key")

    enabled = paddock("plugin", "enable", "parrot", "--no-start", "--json").json
    refused = paddock("call", "parrot.say", "-p", '{"text": "x"}', "--json", code=7).error
    found = looked(paddock, "configuration")

    assert [one["code"] for one in enabled["warnings"]] == ["config.variable_unset"]
    assert refused["message"].endswith(UNSET)
    assert refused["hint"] == "set its configuration fields, then enable it again"
    assert refused["action"]["kind"] == "plugin.configure"
    assert (found["status"], found["code"], found["found"]) == ("warn", "config.variable_unset", UNSET)
    assert looked(dataclasses.replace(paddock, more={"PARROT_KEY": "hunter2"}), "configuration")["status"] == "ok"


def test_a_plugin_that_goes_on_with_the_configuration_it_had_is_not_said_to_be_fine(
    paddock: Paddock, tmp_path: Path
) -> None:
    paddock("plugin", "install", parrot(tmp_path / "parrot", system_config_schema=SCHEMA), "--yes")
    paddock.piped("hunter2", "plugin", "configure", "parrot", "other")
    paddock("plugin", "enable", "parrot")
    with daemon(paddock):
        paddock.piped("${PARROT_KEY}", "plugin", "configure", "parrot", "api_key")

        (warned,) = paddock("plugin", "enable", "parrot", "--json").json["warnings"]
        listed = paddock("plugin", "list")
        found = looked(paddock, "daemon")
        assert warned["code"] == "config.unused"
        assert warned["message"].endswith(UNSET)
        assert "the new configuration is not used" in listed.err
        assert (found["status"], found["code"]) == ("warn", "config.unused")
        assert found["details"][0].endswith(UNSET)
        assert looked(paddock, "configuration")["status"] == "ok"  # the daemon has variables of its own

        paddock("plugin", "configure", "parrot", "api_key", "--unset")
        assert paddock("plugin", "enable", "parrot", "--json").json["warnings"] == []
        assert looked(paddock, "daemon")["status"] == "ok"
