"""Refusals around secrets and files say what to do next."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, SOURCE, Paddock, Said
from fixtures.parrot import parrot
from fixtures.ready_commands import run_ready_command


def typed_into(paddock: Paddock, *words: str, stdin: str = "") -> Said:
    ran = run_ready_command(SOURCE, [*words], stdin=stdin, env=paddock.environment, timeout=PATIENCE)
    return Said(ran.returncode, ran.stdout, ran.stderr)


def refused(paddock: Paddock, *words: str, stdin: str = "") -> dict[str, Any]:
    return typed_into(paddock, *words, "--json", stdin=stdin).error


def test_a_passphrase_that_is_wrong_or_cannot_be_read_is_refused_with_where_it_comes_from(
    paddock: Paddock, tmp_path: Path
) -> None:
    file = tmp_path / "passphrase"
    file.touch(0o600)
    paddock = dataclasses.replace(
        paddock, more={"PADDOCK_SECRETS_KEY": "passphrase", "PADDOCK_SECRETS_PASSPHRASE_FILE": str(file)}
    )
    typed = ("secret", "set", "api_key")
    file.write_text("correct horse")
    assert typed_into(paddock, *typed, stdin="hunter2").code == 0
    file.write_text("wrong horse")
    wrong = refused(paddock, *typed, stdin="hunter2")
    file.unlink()
    gone = refused(paddock, *typed, stdin="hunter2")

    assert [one["code"] for one in (wrong, gone)] == ["secret.key", "secret.key"]
    assert all("secrets.passphrase_file" in one["hint"] for one in (wrong, gone))


def test_a_value_that_is_too_long_for_a_secret_is_refused_with_what_may_be_wrong(paddock: Paddock) -> None:
    long = refused(paddock, "secret", "set", "api_key", stdin="x" * 70_000)
    assert (long["code"], long["hint"]) == (
        "config.too_large",
        "a key or a password is shorter: was another file meant?",
    )


def test_a_file_that_is_none_of_parameters_or_of_servers_is_refused_with_what_it_should_be(
    paddock: Paddock, tmp_path: Path
) -> None:
    paddock.quickly("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
    unreadable = refused(paddock, "call", "parrot.say", "--params", "@nofile")
    no_json = refused(paddock, "import", str(paddock.local))
    assert unreadable["hint"].startswith("name a file that is there")
    assert "mcpServers" in no_json["hint"]


@pytest.mark.slow
def test_a_missing_secret_of_whoever_types_is_set_by_the_line_that_is_told(paddock: Paddock, tmp_path: Path) -> None:
    needs = {"say": {"secrets": {"token": "user"}}}
    folder = parrot(tmp_path / "parrot", tools=("say",), operation_auth=needs)
    paddock.quickly("plugin", "install", folder, "--yes")
    paddock.quickly("plugin", "enable", "parrot")
    call = ("call", "parrot.say", "-p", '{"text": "x"}')
    lacks = refused(paddock, *call)

    assert lacks["code"] == "missing_secrets"
    words = lacks["command"].split()
    assert words[:5] == ["paddock", "secret", "set", "token", "--user"]
    assert words[5].startswith("local:")
    assert typed_into(paddock, *words[1:], stdin="hunter2").code == 0
    assert paddock(*call).json["said"] == "x"
