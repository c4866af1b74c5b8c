"""A folder that a plugin asks for and that is not there: told before the yes, and the whole way out of it after."""

from __future__ import annotations

import json
from pathlib import Path

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.parrot import parrot

SAY = ("call", "parrot.say", "-p", '{"text": "x"}')


def asking_for(folder: Path, version: str, place: Path) -> Path:
    package = parrot(folder, version=version)
    manifest = json.loads((package / "paddock.yaml").read_text())
    (package / "paddock.yaml").write_text(json.dumps(manifest | {"capabilities": [f"read:fs:{place}"]}))
    return package


def test_a_missing_folder_is_warned_of_before_the_yes(paddock: Paddock, source: Path) -> None:
    paddock("plugin", "install", parrot(source / "parrot"), "--yes")
    place = source / "nothere"
    asking_for(source / "parrot", "1.1.0", place)

    asked = paddock("plugin", "upgrade", "parrot", code=4)
    assert f"{place} does not exist, and the plugin does not start without it" in asked.err
    assert f"mkdir -p {place}" in asked.err
    done = paddock("plugin", "upgrade", "parrot", "--grant", f"read:fs:{place}", "--yes", "--json").json
    assert [(one["path"], one["code"]) for one in done["warnings"]] == [(f"read:fs:{place}", "place_missing")]


def test_what_is_there_is_not_warned_of(paddock: Paddock, source: Path) -> None:
    package = asking_for(source / "parrot", "1.0.0", source)
    source.parent.chmod(0o755)
    source.chmod(0o755)

    assert paddock("plugin", "install", package, "--yes", "--json").json["warnings"] == []


def test_the_hint_of_a_plugin_whose_folder_is_missing_is_the_whole_way(paddock: Paddock, source: Path) -> None:
    place = source / "nothere"
    paddock("plugin", "install", asking_for(source / "parrot", "1.0.0", place), "--yes")
    paddock("plugin", "enable", "parrot", "--no-start")
    way = f"→ mkdir -p {place}\n  → paddock plugin enable parrot"
    with daemon(paddock):
        assert way in paddock(*SAY, code=7).err
        assert way in paddock("plugin", "list").err
        place.mkdir()
        paddock("plugin", "enable", "parrot")
        assert paddock(*SAY).json["said"] == "x"
