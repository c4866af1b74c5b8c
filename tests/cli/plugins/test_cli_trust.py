"""`paddock plugin trust`: what a server says of its tools is shown, and a person may take its word for a version."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.definitions.listings import fine, tool

from fixtures.commands import Paddock
from fixtures.packages import native, write_file
from paddock.core.ids import DEFAULT_TENANT
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.tool_pinning.normalize import Definition, normalize_definitions
from paddock.plugins.tool_pinning.record import record_listing

READS, DELETES = {"readOnlyHint": True}, {"destructiveHint": True}
LISTED = (
    tool("look", annotations=READS),
    tool("search", annotations=READS),
    tool("delete", annotations=DELETES),
    tool("plain"),
)


@pytest.fixture
def files(paddock: Paddock, source: Path) -> Paddock:
    """A home with a server that may write, and that was met once."""
    install(paddock, source)
    met(paddock, *LISTED)
    return dataclasses.replace(paddock, more={"NO_COLOR": "1"})


def install(paddock: Paddock, source: Path, version: str = "1.0.0", **fields: Any) -> None:
    server = {"command": ["./run.sh"], "protocol": "mcp"}
    native(source, "files", version, **{"runtime": server, "capabilities": ["storage:write"], "tools": None} | fields)
    paddock.quickly("plugin", "install", source, "--yes")


def met(paddock: Paddock, *listed: Definition) -> None:
    """What happens when the server runs and lists this."""
    with open_local_store({"PADDOCK_HOME": str(paddock.home)}, paddock.home) as host:
        listing = normalize_definitions(listed, fine)
        record_listing(host.plugins, DEFAULT_TENANT, "files", listing, digest="sha256:1")


def effects(paddock: Paddock) -> dict[str, list[str]]:
    shown = paddock.quickly("plugin", "tools", "files", "--json").json
    return {one["name"]: one["effects"] for one in shown["tools"]}


def recorded(paddock: Paddock, kind: str) -> list[dict[str, Any]]:
    return paddock.quickly("ledger", "tail", "--type", kind, "--json").json["entries"]


UNTRUSTED = {"look": ["unknown"], "search": ["unknown"], "delete": ["unknown"], "plain": ["unknown"]}
TRUSTED = UNTRUSTED | {"look": ["read_only"], "search": ["read_only"]}


def test_what_each_tool_says_of_itself_is_shown_with_how_to_take_its_word(files: Paddock) -> None:
    tools = files.quickly("plugin", "tools", "files")
    assert tools.out.count("says it only reads (unverified)") == 2
    assert "says it deletes" in tools.out and "says nothing about what it changes" in tools.out
    assert "2 tools say they only read (unverified): look, search" in tools.err
    assert "paddock plugin trust files --reads" in tools.err

    shown = files.quickly("plugin", "show", "files")
    assert "tool look — accepted (first use); says it only reads (unverified)" in shown.out
    assert "tool delete — accepted (first use); says it deletes" in shown.out
    assert "paddock plugin trust files --reads" in shown.err
    assert effects(files) == UNTRUSTED


def test_a_yes_on_the_terminal_takes_all_read_only_marks_at_once_and_is_on_record(files: Paddock) -> None:
    screen = files.on_terminal("plugin", "trust", "files", "--reads", answers=["y"])

    assert "Trust its own read-only marks: 2 tools?" in screen
    assert effects(files) == TRUSTED
    listed = files.quickly("plugin", "trust", "files")
    assert listed.out.count("only reads, as it says (trusted by local:") == 2
    assert "takes its word that it only reads" in files.quickly("plugin", "tools", "files", "look").out
    (entry,) = recorded(files, "plugin.claims_trusted")
    assert (entry["facts"]["word"], entry["facts"]["tools"]) == ("reads", ["look", "search"])
    assert entry["facts"]["digest"] == files.quickly("plugin", "show", "files", "--json").json["digest"]


def test_without_a_terminal_it_needs_yes_and_a_no_changes_nothing(files: Paddock) -> None:
    refused = files.quickly("plugin", "trust", "files", "--reads", "--json", code=4)
    assert refused.error["details"]["tools"] == ["look", "search"]
    assert "paddock plugin trust files --reads --yes" in refused.error["hint"]
    assert effects(files) == UNTRUSTED

    assert files.quickly("plugin", "trust", "files", "--reads", "--yes", "--json").json["tools"] == ["look", "search"]
    assert files.quickly("plugin", "trust", "files", "--reads", "--yes", "--json").json["tools"] == []
    assert len(recorded(files, "plugin.claims_trusted")) == 1, "what is believed already is not news"

    files.quickly("plugin", "trust", "files", "search", "--reads", "--off")
    assert effects(files) == TRUSTED | {"search": ["unknown"]}
    files.quickly("plugin", "trust", "files", "--reads", "--off")
    assert effects(files) == UNTRUSTED
    assert [entry["facts"]["tools"] for entry in recorded(files, "plugin.claims_distrusted")] == [["search"], ["look"]]


def test_an_upgrade_ends_it_and_a_changed_definition_ends_it_for_that_tool(files: Paddock, source: Path) -> None:
    files.quickly("plugin", "trust", "files", "--reads", "--yes")
    met(files, tool("look", "Read a file, and more", annotations=READS), *LISTED[1:])
    assert effects(files) == TRUSTED | {"look": ["unknown"]}, "nobody takes a new definition's word"
    files.quickly("plugin", "accept", "files", "look", "--yes")
    assert effects(files) == TRUSTED | {"look": ["unknown"]}, "nor with its acceptance"
    met(files, tool("look", "Read a file, and more", annotations=READS | DELETES), *LISTED[1:])
    files.quickly("plugin", "accept", "files", "look", "--yes")
    refused = files.quickly("plugin", "trust", "files", "look", "--reads", "--yes", "--json", code=6)
    assert refused.error["code"] == "trust.nothing_to_trust"

    install(files, source, "1.1.0")
    assert effects(files) == UNTRUSTED
    assert files.quickly("plugin", "trust", "files", "--json").json["untrusted_reads"] == ["search"]
    files.quickly("plugin", "rollback", "files", "--yes")
    assert effects(files)["search"] == ["read_only"], "it was taken for these files"


def test_there_is_nothing_to_believe_of_what_does_not_say_so_or_is_declared(files: Paddock, source: Path) -> None:
    for name in ("delete", "plain"):
        refused = files.quickly("plugin", "trust", "files", name, "--reads", "--yes", "--json", code=6).error
        assert (refused["code"], f"{name} does not say that it only reads" in refused["message"]) == (
            "trust.nothing_to_trust",
            True,
        )
    assert files.quickly("plugin", "trust", "files", "absent", "--reads", "--yes", "--json", code=3).error["code"] == (
        "callable.not_found"
    )
    files.quickly("plugin", "trust", "files", "plain", code=2)
    files.quickly("plugin", "trust", "files", "--errors", code=2)
    install(files, source, "2.0.0", tools=[{"name": "look", "description": "Look", "effects": ["db_write"]}])
    assert effects(files)["look"] == ["db_write"]
    declared = files.quickly("plugin", "trust", "files", "look", "--reads", "--yes", "--json", code=6).error
    assert "has declared effects, which count" in declared["message"]


def test_in_a_cage_that_can_change_nothing_only_what_says_so_itself_is_no_reading(
    paddock: Paddock, source: Path
) -> None:
    install(paddock, source, capabilities=[])
    met(paddock, *LISTED)

    reads = ["read_only"]
    assert effects(paddock) == {"look": reads, "search": reads, "plain": reads, "delete": ["unknown"]}
    assert paddock.quickly("plugin", "trust", "files", "--json").json["untrusted_reads"] == []


def test_errors_of_a_tool_are_settled_as_not_done_and_no_longer(files: Paddock) -> None:
    settled = files.quickly("plugin", "trust", "files", "delete", "plain", "--errors", "--yes", "--json").json
    assert (settled["word"], settled["trusted"], settled["tools"]) == ("errors", True, ["delete", "plain"])
    assert "errors: mean that nothing was done, as local:" in files.quickly("plugin", "tools", "files", "plain").out
    assert set(files.quickly("plugin", "trust", "files", "--json").json["errors"]) == {"delete", "plain"}
    assert files.quickly("plugin", "trust", "files", "--reads", "--off", "--json").json["tools"] == []
    files.quickly("plugin", "trust", "files", "plain", "--errors", "--off")
    assert set(files.quickly("plugin", "trust", "files", "--json").json["errors"]) == {"delete"}
    assert effects(files) == UNTRUSTED


FAILS = """
from paddock_sdk import Plugin
plugin = Plugin("notes", "1.0.0")
@plugin.tool
def add(params, context):
    raise RuntimeError("no")
plugin.run()
"""


@pytest.mark.slow
def test_errors_of_a_tool_that_a_package_declares_are_settled_for_that_version(paddock: Paddock, source: Path) -> None:
    native(source, runtime={"command": ["python3", "./main.py"]})
    write_file(source / "main.py", FAILS)
    paddock.quickly("plugin", "install", source, "--yes")
    paddock.quickly("plugin", "enable", "notes")
    add = ("call", "notes.add", "--params", '{"text": "x"}', "--json")
    assert paddock.quickly(*add, code=7).error["details"]["effect"] == "in_doubt"

    paddock.quickly("plugin", "trust", "notes", "add", "--errors", "--yes")
    assert "effect" not in paddock.quickly(*add, code=7).error["details"]
    native(source, version="1.1.0", runtime={"command": ["python3", "./main.py"]})
    paddock.quickly("plugin", "upgrade", "notes", source, "--yes")
    assert paddock.quickly("plugin", "trust", "notes", "--json").json["errors"] == {}


def test_enabling_a_server_that_was_met_before_offers_to_trust_its_marks(files: Paddock) -> None:
    screen = files.on_terminal("plugin", "enable", "files", "--no-start", answers=["y"])

    assert "Trust its own read-only marks: 2 tools?" in screen
    assert effects(files) == TRUSTED
