"""Giving a plugin what it needs on this machine, without a secret on the command line or on the screen."""

from __future__ import annotations

import dataclasses
import os
import pty
import select
import time
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, SOURCE, Paddock, Said
from fixtures.packages import native
from fixtures.prepared_homes import prepare_home
from fixtures.ready_commands import ReadyCommand, run_ready_command
from paddock.core.clock import SystemRandom
from paddock.core.ids import DEFAULT_TENANT
from paddock.secrets.requirements import SecretScope
from paddock.secrets.vault import read_secret
from paddock.secrets.wrapping_keys import build_wrapping_keys
from paddock.store.database import open_direct

SECRET = 'hunter2 $${x} "quoted"'
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "api_key": {"type": "string", "minLength": 3, "description": "From the weather service."},
        "port": {"type": "integer", "minimum": 1},
        "fast": {"type": "boolean"},
        "region": {"type": "string", "enum": ["eu", "us"], "default": "eu"},
        "hosts": {"type": "array", "items": {"type": "string"}},
        "ratio": {"type": ["number", "string"]},
        "pin code": {"type": "string", "x-secret": True},
        "accounts": {"type": "object", "x-secret": True},
    },
    "required": ["api_key", "region"],
}


def installed_weather(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source, name="weather", system_config_schema=SCHEMA), "--yes")


@pytest.fixture
def weather(paddock: Paddock) -> Paddock:
    prepare_home(paddock, installed_weather)
    return paddock


def configure(paddock: Paddock, *words: str, stdin: str = "", code: int = 0) -> Said:
    """The command without a terminal, with this on its stdin."""
    ran = run_ready_command(
        SOURCE, ["plugin", "configure", *words], stdin=stdin, env=paddock.environment, timeout=PATIENCE
    )
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr
    return Said(ran.returncode, ran.stdout, ran.stderr)


def entry(paddock: Paddock) -> dict[str, Any]:
    return tomllib.loads(paddock.local.read_text())["plugins"]["weather"]


def sealed(paddock: Paddock, key: str = "api_key") -> str | None:
    """What the file refers to for this field: one of the secrets, opened."""
    written = entry(paddock)[key]
    assert written.startswith("${secret:plugin/weather/")
    keys = build_wrapping_keys({}, paddock.home / "state", SystemRandom())
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        name = written.removeprefix("${secret:").removesuffix("}")
        found = read_secret(database, keys, DEFAULT_TENANT, None, name, (SecretScope.SYSTEM,))
    return found.reveal() if found is not None else None


def secrets(paddock: Paddock) -> list[tuple[str, int]]:
    return [(one["name"], one["version"]) for one in paddock.quickly("secret", "list", "--json").json["secrets"]]


def test_the_line_that_a_refused_enable_prints_makes_it_work(weather: Paddock) -> None:
    refused = weather.quickly("plugin", "enable", "weather", "--json", code=6)
    assert refused.error["errors"][0]["action"] == {
        "kind": "plugin.configure",
        "arguments": {"plugin": "weather", "field": "api_key"},
    }
    said = configure(weather, "weather", "api_key", stdin="hunter2\n")
    assert "set api_key of weather" in said.err
    assert "hunter2" not in said.out + said.err
    assert sealed(weather) == "hunter2"
    assert weather.local.stat().st_mode & 0o777 == 0o600
    weather.quickly("plugin", "enable", "weather", "--no-start")


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("port", "8080", 8080),
        ("fast", "yes", True),
        ("fast", "false", False),
        ("region", "us", "us"),
        ("hosts", '["a", "b"]', ["a", "b"]),
        ("ratio", "0.5", "0.5"),
        ("api_key", "${WEATHER_KEY}", "${WEATHER_KEY}"),
        ("api_key", "${secret:of.another.name}", "${secret:of.another.name}"),
        ("ratio", "${x", "$${x"),
    ],
)
def test_a_value_is_read_as_what_the_plugin_declares(weather: Paddock, key: str, text: str, value: object) -> None:
    answer = configure(weather, "weather", key, "--json", stdin=text + "\n").json
    assert answer == {"name": "weather", "key": key, "set": True, "sealed": False, "file": str(weather.local)}
    assert entry(weather)[key] == value
    assert entry(weather)["installed"] == "1.0.0"


@pytest.mark.parametrize(
    ("key", "text"),
    [
        *[("port", "hunter2"), ("port", "0"), ("port", "1.5"), ("port", "NaN"), ("port", "null")],
        *[("fast", "hunter2"), ("region", "hunter2"), ("api_key", "h2")],
        *[("hosts", '["a", null]'), ("hosts", "[1]")],
        pytest.param("hosts", "[" * 60_000, id="deep"),
        pytest.param("hosts", "[" * 100_000, id="long"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_and_not_repeated(weather: Paddock, key: str, text: str) -> None:
    before = weather.local.read_text()
    said = configure(weather, "weather", key, "--json", stdin=text, code=6)
    assert said.error["code"] in ("config.plugin_invalid", "config.too_large")
    assert "hunter2" not in said.out + said.err
    assert weather.local.read_text() == before


@pytest.mark.parametrize("text", [SECRET, "1e5", "  spaces stay "])
def test_a_secret_is_sealed_as_typed_and_the_file_refers_to_it(weather: Paddock, text: str) -> None:
    answer = configure(weather, "weather", "api_key", "--json", stdin=text + "\n").json
    assert answer["sealed"] is True
    assert sealed(weather) == text
    assert text not in weather.local.read_text()


def test_a_sealed_field_is_sealed_again_and_erased_where_a_variable_takes_its_place_or_it_is_forgotten(
    weather: Paddock,
) -> None:
    for value in ("hunter1", "hunter2"):
        configure(weather, "weather", "api_key", stdin=value)
    assert secrets(weather) == [("plugin/weather/api_key", 2)]
    configure(weather, "weather", "api_key", stdin="${WEATHER_KEY}")
    assert secrets(weather) == []
    configure(weather, "weather", "api_key", stdin="hunter3")
    assert sealed(weather) == "hunter3"
    configure(weather, "weather", "api_key", "--unset")
    assert secrets(weather) == []


def test_a_field_whose_name_no_secret_can_have_is_sealed_under_another(weather: Paddock) -> None:
    configure(weather, "weather", "pin code", stdin="hunter2")
    assert sealed(weather, "pin code") == "hunter2"


def test_a_field_that_refers_to_what_is_not_set_is_not_listed_as_set(weather: Paddock) -> None:
    configure(weather, "weather", "api_key", stdin="${WEATHER_KEY}")
    configure(weather, "weather", "ratio", stdin="${secret:weather.ratio}")
    shown = weather("plugin", "configure", "weather")
    assert [line.split()[1:3] for line in shown.out.splitlines()[1:] if line.startswith(("api_key", "ratio"))] == [
        ["leads", "nowhere"],
        ["leads", "nowhere"],
    ]
    assert "the environment variable WEATHER_KEY is not set" in shown.err
    assert "paddock secret set weather.ratio" in shown.err
    exported = dataclasses.replace(weather, more={"WEATHER_KEY": "hunter2"})
    fields = {one["key"]: one for one in exported("plugin", "configure", "weather", "--json").json["fields"]}
    assert fields["api_key"]["problems"] == []
    assert [one["code"] for one in fields["ratio"]["problems"]] == ["config.secret_unset"]


def test_fields_are_listed_without_their_values_and_forgotten_on_request(weather: Paddock) -> None:
    configure(weather, "weather", "api_key", stdin="hunter2")
    shown = weather("plugin", "configure", "weather")
    assert "hunter2" not in shown.out + shown.err
    assert "From the weather service." in shown.out
    fields = {field["key"]: field for field in weather("plugin", "configure", "weather", "--json").json["fields"]}
    assert [(one["set"], one["required"], one["secret"]) for one in (fields["api_key"], fields["region"])] == [
        (True, True, True),
        (False, False, False),
    ]
    assert fields["region"]["takes"] == "one of eu, us"

    assert configure(weather, "weather", "api_key", "--unset", "--json").json["set"] is False
    assert "api_key" not in entry(weather)
    assert "was not set" in configure(weather, "weather", "api_key", "--unset").err
    configure(weather, "weather", "--unset", code=2)


def test_what_cannot_be_set_is_said(weather: Paddock, source: Path) -> None:
    small = configure(weather, "weather", "port", stdin="0", code=6).err
    assert "0 is less than 1" in small
    assert "use 1 or more" in small
    assert "did you mean api_key?" in configure(weather, "weather", "api_kee", stdin="x", code=3).err
    configure(weather, "absent", "api_key", stdin="x", code=3)
    assert configure(weather, "weather", "installed", "--json", stdin="x", code=3).error["code"] == (
        "config.no_such_field"
    )
    assert configure(weather, "weather", "api_key", "--json", code=6).error["code"] == "config.no_value"
    weather.quickly("plugin", "install", native(source / "plain"), "--yes")
    assert "needs no configuration" in weather("plugin", "configure", "notes").err
    configure(weather, "weather", "port", "8080", code=2)  # never as an argument: others see those


def type_at(paddock: Paddock, prompt: bytes, answer: str, *words: str) -> str:
    """Run the command on a terminal and answer its prompt; gives all that appeared."""
    ours, theirs = pty.openpty()
    process = ReadyCommand(
        SOURCE, ["plugin", "configure", *words],
        stdin=theirs, stdout=theirs, stderr=theirs, env=paddock.environment, start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    seen, answered, deadline = b"", False, time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            if not select.select([ours], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(ours, 65_536)
            except OSError:
                break
            seen += chunk
            if not answered and prompt in seen:
                answered = True
                os.write(ours, answer.encode() + b"\n")
        assert process.wait(timeout=60) == 0, seen
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return seen.decode()


def test_a_secret_is_typed_unseen_and_anything_else_is_not(weather: Paddock) -> None:
    assert "hunter2" not in type_at(weather, b"api_key (not shown): ", "hunter2", "weather", "api_key")
    assert sealed(weather) == "hunter2"
    assert "8080" in type_at(weather, b"port (a whole number): ", "8080", "weather", "port")
    assert entry(weather)["port"] == 8080


def test_a_secret_field_that_takes_no_text_is_said_to_be_kept_in_the_clear(weather: Paddock) -> None:
    said = configure(weather, "weather", "accounts", stdin='{"ann": "hunter2"}')

    assert f"in the clear in {weather.local}: only texts are sealed" in said.err and "hunter2" not in said.err
    assert entry(weather)["accounts"] == {"ann": "hunter2"} and secrets(weather) == []
