"""Uninstalling leaves nothing of a plugin, and everything of the others."""

from __future__ import annotations

import json
import tomllib
from contextlib import nullcontext
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import native, write_file, write_json
from fixtures.parrot import MAIN, parrot

EXAMPLES = Path(__file__).parents[3] / "examples"
CANARY = "canary-3f9a1c77"


def holding(root: Path, text: str) -> list[str]:
    """Files below a directory that hold this text, or have it in their name."""
    wanted = text.encode()
    return sorted(
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.is_file() and (wanted in path.read_bytes() or text in str(path.relative_to(root)))
    )


def blobs(paddock: Paddock) -> list[Path]:
    return [path for path in (paddock.home / "data" / "packages").rglob("*") if path.is_file()]


@pytest.mark.req("G-51", "leaves nothing behind")
def test_uninstalling_removes_files_rows_blobs_aliases_and_configuration_with_its_secrets(
    paddock: Paddock, source: Path
) -> None:
    system = {"type": "object", "properties": {"token": {"type": "string"}}}
    paddock.quickly("plugin", "install", native(source / "n", system_config_schema=system), "--yes")
    native(source / "n", version="1.1.0", system_config_schema=system)
    paddock.quickly("plugin", "upgrade", "notes", "--yes")
    paddock.quickly("plugin", "install", native(source / "o", name="other"), "--yes")
    paddock.quickly("plugin", "alias", "jot", "notes")
    text = paddock.local.read_text()
    paddock.local.write_text(text.replace("[plugins.notes]\n", f'[plugins.notes]\ntoken = "{CANARY}"\n'))
    paddock.quickly("plugin", "enable", "notes", "--no-start")
    assert len(blobs(paddock)) == 3
    other = paddock.listed()["other"]

    done = paddock("plugin", "remove", "notes", "--yes", "--json").json

    assert done == {"name": "notes", "action": "uninstalled", "version": None, "purge_pending": False}
    assert paddock.listed() == {"other": other}
    assert [path.name for path in paddock.trees.iterdir()] == ["other"]
    assert len(blobs(paddock)) == 1
    assert list(tomllib.loads(paddock.local.read_text())["plugins"]) == ["other"]
    assert holding(paddock.home, CANARY) == []
    assert paddock.local.stat().st_mode & 0o777 == 0o600
    paddock.quickly("plugin", "show", "jot", code=3)

    # It is a stranger again: consent starts from the beginning, and it comes in disabled.
    paddock.quickly("plugin", "install", source / "n", code=4)
    paddock.quickly("plugin", "install", source / "n", "--yes")
    assert paddock.listed()["notes"]["state"] == "disabled"


def test_uninstalling_needs_a_yes(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    said = paddock("plugin", "remove", "notes", code=4)
    assert "paddock plugin remove notes --yes" in said.err

    paddock.on_terminal("plugin", "remove", "notes", answers=["n"], code=4)
    assert list(paddock.listed()) == ["notes"]
    paddock.on_terminal("plugin", "remove", "notes", answers=["y"])
    assert paddock.listed() == {}


def test_nobody_is_asked_about_a_plugin_that_is_not_there(paddock: Paddock) -> None:
    assert paddock("plugin", "remove", "absent", "--json", code=3).error["code"] == "plugin.not_found"


def test_one_version_goes_and_the_one_in_use_stays(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    native(source, version="1.1.0")
    paddock.quickly("plugin", "upgrade", "notes", "--yes")

    refused = paddock.quickly("plugin", "remove", "notes", "--version", "1.1.0", "--yes", "--json", code=1)
    assert refused.error["code"] == "plugin.in_use"
    paddock.quickly("plugin", "remove", "notes", "--version", "9.9.9", "--yes", code=3)
    paddock.quickly("plugin", "remove", "notes", "--version", "1.0.0", "--yes")
    assert [path.name for path in (paddock.trees / "notes").iterdir()] == ["1.1.0"]
    assert paddock.listed()["notes"]["versions"] == ["1.1.0"]


def test_a_package_that_two_plugins_share_is_kept_for_the_other(paddock: Paddock, source: Path) -> None:
    """Two versions may hold equal bytes only under one name, so the blob is shared by hand here."""
    import apsw

    paddock.quickly("plugin", "install", native(source / "a", name="alpha"), "--yes")
    paddock.quickly("plugin", "install", native(source / "b", name="beta"), "--yes")
    database = apsw.Connection(str(paddock.home / "data" / "paddock.db"))
    database.execute(
        "UPDATE plugin_versions SET blob = (SELECT blob FROM plugin_versions WHERE plugin = 'alpha') "
        "WHERE plugin = 'beta'"
    )
    kept = str(database.execute("SELECT blob FROM plugin_versions WHERE plugin = 'alpha'").get)
    database.close()
    paddock.quickly("plugin", "remove", "beta", "--yes")

    assert kept.removeprefix("sha256:") in [path.name for path in blobs(paddock)]
    paddock.quickly("plugin", "remove", "alpha", "--yes")
    assert kept.removeprefix("sha256:") not in [path.name for path in blobs(paddock)]


def test_a_link_in_the_place_of_a_version_is_removed_and_what_it_points_at_stays(
    paddock: Paddock, source: Path, tmp_path: Path
) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    mine = tmp_path / "mine"
    root = paddock.trees / "notes" / "1.0.0"
    root.rename(mine)
    root.symlink_to(mine)
    paddock.quickly("plugin", "remove", "notes", "--yes")

    assert (mine / "run.sh").exists()
    assert not (paddock.trees / "notes").exists()
    paddock.quickly("plugin", "install", native(source), "--yes")


def test_a_pinned_plugin_is_removed_only_by_force(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    paddock.quickly("plugin", "pin", "notes")
    said = paddock.quickly("plugin", "remove", "notes", "--yes", code=1)
    assert "paddock plugin remove notes --force" in said.err
    paddock.quickly("plugin", "remove", "notes", "--yes", "--force")
    assert paddock.listed() == {}


def test_the_only_version_cannot_be_removed_alone(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", native(source), "--yes")
    said = paddock.quickly("plugin", "remove", "notes", "--version", "1.0.0", "--yes", code=1)
    assert "paddock plugin remove notes" in said.err


@pytest.mark.req("G-51", "tables dropped")
@pytest.mark.parametrize("with_daemon", [pytest.param(False, marks=pytest.mark.slow), True])
def test_what_a_plugin_kept_goes_with_it_and_the_next_of_its_name_finds_nothing(
    paddock: Paddock, with_daemon: bool
) -> None:
    for name in ("native-notes", "memory-markdown"):
        paddock.quickly("plugin", "install", EXAMPLES / name, "--yes")
        paddock.quickly("plugin", "enable", name)
    logs = paddock.home / "state" / "logs"
    with daemon(paddock) if with_daemon else nullcontext():
        diary = paddock.home / "data" / "files" / "memory-markdown" / "memory" / "diary.md"
        diary.parent.mkdir(parents=True, exist_ok=True)
        diary.write_text(CANARY)
        paddock("call", "native-notes.add_note", "--params", json.dumps({"text": CANARY}))
        kept = holding(paddock.home / "data" / "files", CANARY) + holding(paddock.home / "data" / "storage", CANARY)
        assert len(kept) >= 2

        for name in ("native-notes", "memory-markdown"):
            paddock("plugin", "remove", name, "--yes")
        assert holding(paddock.home, CANARY) == []
        assert not list(logs.glob("*-*.log*")) and not list((paddock.home / "data" / "files").iterdir())

        paddock("plugin", "install", EXAMPLES / "native-notes", "--yes")
        paddock("plugin", "enable", "native-notes")
        found = paddock("call", "native-notes.list_notes", "--params", "{}", "--json").json["result"]
        assert found["notes"] == []


@pytest.mark.slow
def test_the_next_plugin_of_a_name_has_a_log_of_its_own(paddock: Paddock, source: Path) -> None:
    with daemon(paddock) as running:
        for words in ("old words", "new words"):
            paddock("plugin", "install", parrot(source / words, main=MAIN), "--yes")
            paddock("plugin", "enable", "parrot")
            running.ask("POST", "/plugins/parrot/call/note", {"text": words})
            assert words in paddock("plugin", "logs", "parrot").out
            if words == "old words":
                paddock("plugin", "remove", "parrot", "--yes")
        assert "old words" not in paddock("plugin", "logs", "parrot").out
    assert "new words" in (paddock.home / "state" / "logs" / "parrot.log").read_text()


KEEPER = """
import os, time
from paddock_sdk import Host, Plugin
plugin = Plugin("keeper", "1.0.0")

@plugin.tool
def keep(whose: str, host: Host):
    host.sql.exec("CREATE TABLE IF NOT EXISTS t (whose)").wait()
    host.sql.exec("INSERT INTO t VALUES (?)", [whose]).wait()
    host.cache.set("whose", whose).wait()
    return {}

@plugin.tool
def look(host: Host):
    tables = host.sql.schema().wait()
    rows = host.sql.query("SELECT whose FROM t").wait().rows if tables else []
    return {"rows": [row["whose"] for row in rows], "cached": host.cache.get("whose").wait()}

@plugin.tool
def stay(until: str):
    while not os.path.exists(until):
        time.sleep(0.02)
    return {}

plugin.run()
"""


def keeper(root: Path, door: Path) -> Path:
    """A plugin that keeps something, and one call of which stays until there is a file behind its door."""
    door.mkdir(exist_ok=True)
    tools = [{"name": name, "description": name, "effects": ["db_write"]} for name in ("keep", "look", "stay")]
    manifest = {
        "paddock": 1,
        "name": "keeper",
        "version": "1.0.0",
        "description": f"Keeps things; from {root.name}",
        "runtime": {"command": ["python3", "./main.py"]},
        "capabilities": ["storage:write", "host:cache", f"read:fs:{door}"],
        "tools": [tool | {"input_schema": {"type": "object"}} for tool in tools],
    }
    write_json(root / "paddock.yaml", manifest)
    write_file(root / "main.py", KEEPER)
    return root


def looked(paddock: Paddock) -> object:
    return paddock("call", "keeper.look", "--params", "{}", "--json").json["result"]


@pytest.mark.slow
def test_a_plugin_that_is_still_busy_leaves_nothing_to_the_next_of_its_name_and_takes_nothing_of_it(
    paddock: Paddock, source: Path, tmp_path: Path
) -> None:
    door = tmp_path / "door"
    mine = {"params": json.dumps({"whose": "mine"}), "stay": json.dumps({"until": str(door / "open")})}
    with daemon(paddock):
        paddock("plugin", "install", keeper(source / "first", door), "--yes")
        paddock("plugin", "enable", "keeper")
        paddock("call", "keeper.keep", "--params", mine["params"])
        assert looked(paddock) == {"rows": ["mine"], "cached": "mine"}
        paddock("call", "keeper.stay", "--params", mine["stay"], "--detach")
        with paddock.start("plugin", "remove", "keeper", "--yes", "--json") as uninstalling:
            eventually(lambda: (paddock.home / "data" / "leaving" / "keeper").exists(), "it does not leave")
            refused = paddock("plugin", "install", keeper(source / "second", door), "--yes", "--json", code=7)
            assert refused.error["code"] == "plugin.leaving"
            (door / "open").touch()
            out, err = uninstalling.communicate(timeout=60)
        assert json.loads(out)["purge_pending"] is False, err

        paddock("plugin", "install", source / "second", "--yes")
        paddock("plugin", "enable", "keeper")
        assert looked(paddock) == {"rows": [], "cached": None}
        paddock("call", "keeper.keep", "--params", json.dumps({"whose": "theirs"}))
        paddock("plugin", "pin", "keeper")  # has the daemon look again at everything
        assert looked(paddock) == {"rows": ["theirs"], "cached": "theirs"}


@pytest.mark.slow
def test_what_can_still_be_read_in_the_log_of_the_store_is_not_called_removed_and_holds_its_name_until_it_is_gone(
    paddock: Paddock,
) -> None:
    import apsw

    paddock.quickly("plugin", "install", EXAMPLES / "native-notes", "--yes")
    paddock.quickly("plugin", "enable", "native-notes", "--no-start")
    reader = apsw.Connection(str(paddock.home / "data" / "paddock.db"))
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM effects").fetchall()
    paddock("call", "native-notes.add_note", "--params", json.dumps({"text": CANARY}))
    said = paddock("plugin", "remove", "native-notes", "--yes")
    assert "will be dropped when its last call has ended" in said.err + said.out
    assert "with all its versions, data" not in said.err + said.out
    refused = paddock("plugin", "install", EXAMPLES / "native-notes", "--yes", "--json", code=7)
    assert refused.error["code"] == "plugin.leaving"
    assert holding(paddock.home, CANARY)

    reader.close()
    paddock("plugin", "install", EXAMPLES / "native-notes", "--yes")
    assert holding(paddock.home, CANARY) == []
