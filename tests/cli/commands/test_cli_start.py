"""A command starts without what it does not need, and takes text as it was typed."""

from __future__ import annotations

import dataclasses
import re

import pytest

from fixtures.commands import Paddock

HEAVY = {
    *("asyncio", "anyio", "cryptography", "jsonschema_rs", "orjson", "procrastinate", "psycopg", "pydantic", "rich"),
    *("tomlkit", "yaml"),
    *(
        "paddock.core.events.index",
        "paddock.core.schema.compile",
        "paddock.manifest.model",
        "paddock.plugins.package.stage",
    ),
}


def imported(paddock: Paddock, *arguments: str) -> set[str]:
    said = dataclasses.replace(paddock, more={"PYTHONPROFILEIMPORTTIME": "1"}, fresh=True)(*arguments)
    return set(re.findall(r"\| +([\w.]+)$", said.err, re.MULTILINE))


def test_listing_imports_nothing_that_only_other_commands_need(paddock: Paddock) -> None:
    found = imported(paddock, "plugin", "list")

    assert "paddock.plugins.store.listing" in found
    assert found & HEAVY == set()


def test_the_overview_loads_no_command(paddock: Paddock) -> None:
    ours = {name for name in imported(paddock, "--help") if name.startswith("paddock.")}

    assert ours == {
        "paddock.cli",
        "paddock.cli.main",
        "paddock.cli.command",
        "paddock.cli.output",
        "paddock.cli.output.streams",
    }


@pytest.mark.parametrize("arguments", [("list", "--kind", "\udcff"), ("show", "caf\udcc3")])
def test_text_that_is_not_utf_8_is_refused_as_wrong_usage(paddock: Paddock, arguments: tuple[str, ...]) -> None:
    assert "is not valid UTF-8" in paddock("plugin", *arguments, code=2).err


def test_text_in_any_script_reaches_the_command_as_typed(paddock: Paddock) -> None:
    assert "no plugin 'café' is installed" in paddock("plugin", "show", "café", code=3).err
