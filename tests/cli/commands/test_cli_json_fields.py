"""The page on plugins as JSON names every field that the commands print, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.parrot import parrot
from paddock.core.errors import Problem
from paddock.plugins.store.listing import InstalledState
from paddock.plugins.tool_pinning.tools import ListingJson

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "plugin-json.md"


def documented(heading: str) -> set[str]:
    """The first cells of the table below a heading."""
    below = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^\| `([a-z_]+)` \|", below, re.MULTILINE))


def test_every_field_of_list_and_info_is_documented(paddock: Paddock, source: Path) -> None:
    paddock("plugin", "install", parrot(source / "parrot"), "--yes")
    with daemon(paddock):
        enabled = paddock("plugin", "enable", "parrot", "--json").json
        (listed,) = paddock("plugin", "list", "--json").json["plugins"]
        shown = paddock("plugin", "show", "parrot", "--json").json
        tools = paddock("plugin", "tools", "parrot", "--json").json

    assert listed.keys() == documented("Fields of list and show")
    assert shown.keys() == documented("Fields of list and show") | documented("Fields of show only")
    assert listed["runtime"].keys() == shown["runtime"].keys() == enabled["runtime"].keys() == documented("runtime")
    keys = {"name", "known", "listing", "tools", "read_marks", "hints"}
    assert (tools.keys(), tools["listing"], tools["tools"]) == (keys, None, shown["tools"])
    assert all(one.keys() == documented("tools") for one in shown["tools"])
    assert enabled.keys() == {"name", "version", "state", "runtime", "warnings", "trusted_reads"}
    assert (enabled["state"], listed["state"], shown["state"]) == ("enabled",) * 3
    assert (enabled["runtime"]["state"], shown["runtime"]["state"]) == ("running", "running")


def test_without_a_daemon_the_fields_are_the_same_and_there_is_no_process(paddock: Paddock, source: Path) -> None:
    paddock("plugin", "install", parrot(source / "parrot"), "--yes")
    enabled = paddock("plugin", "enable", "parrot", "--json").json

    assert enabled.keys() == {"name", "version", "state", "runtime", "warnings", "trusted_reads"}
    assert (enabled["state"], enabled["runtime"]) == ("enabled", None)
    (listed,) = paddock("plugin", "list", "--json").json["plugins"]
    assert (listed.keys(), listed["runtime"]) == (documented("Fields of list and show"), None)


def test_every_state_of_an_installation_and_every_field_of_a_warning_and_of_a_listing_is_documented() -> None:
    states = re.findall(r"^\| `([a-z ]+)` \|", PAGE.read_text(encoding="utf-8").split("\n## ")[0], re.MULTILINE)
    warning = Problem("path", "message", "hint", "code", 1).to_dict()

    assert [one for one in states if one != "state"] == [state.value for state in InstalledState]
    assert warning.keys() == documented("Warnings, obstacles and mistakes")
    assert ListingJson.__annotations__.keys() == documented("listing")
