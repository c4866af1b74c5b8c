"""Dangerous permissions: each is accepted by itself at a first install too, and stays marked afterwards."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import native

ANY_HOST = "net:*"
WRITE = "write:fs:/srv/notes"
RUN = "exec:git:/srv/notes"
SAFE = "read:fs:/opt/notes"


@pytest.mark.req("G-25", "consented to")
def test_yes_alone_accepts_no_dangerous_permission_and_naming_each_does(paddock: Paddock, source: Path) -> None:
    native(source, capabilities=[SAFE, ANY_HOST, WRITE, RUN])

    refused = paddock("plugin", "install", source, "--yes", "--json", code=4)
    assert refused.error["code"] == "consent.dangers"
    assert [one["capability"] for one in refused.error["details"]["dangers"]] == [ANY_HOST, WRITE, RUN]
    assert f"--grant '{ANY_HOST}' --grant {WRITE} --grant {RUN} --yes" in refused.error["hint"]
    assert refused.err.index("3 dangerous permissions") < refused.err.index("What it runs")
    half = paddock.quickly("plugin", "install", source, "--yes", "--grant", WRITE, "--json", code=4)
    assert [one["capability"] for one in half.error["details"]["dangers"]] == [ANY_HOST, RUN]
    assert paddock.listed() == {}

    named = [word for one in (ANY_HOST, WRITE, RUN) for word in ("--grant", one)]
    paddock.quickly("plugin", "install", source, "--yes", *named)

    told = paddock.quickly("ledger", "tail", "--type", "plugin.installed", "--json").json
    assert f"'accepted_dangers': {[ANY_HOST, WRITE, RUN]}" in str(told["entries"][-1])
    assert f"! {WRITE}" in paddock.quickly("plugin", "show", "notes").out
    shown = paddock.quickly("plugin", "show", "notes", "--json").json
    assert [one["capability"] for one in shown["dangers"]] == [ANY_HOST, WRITE, RUN]
    assert shown["dangers"][1]["reason"] == "It changes files outside of its own folder."


def test_at_a_terminal_each_dangerous_permission_is_a_question_of_its_own(paddock: Paddock, source: Path) -> None:
    native(source, capabilities=[SAFE, ANY_HOST, RUN])

    screen = paddock.on_terminal("plugin", "install", source, answers=["y", "y", "n"], code=4)
    assert screen.count("DANGEROUS") == 2
    assert f"({ANY_HOST})? [y/N]" in screen
    assert paddock.listed() == {}

    paddock.on_terminal("plugin", "install", source, answers=["y", "y", "y"])
    assert list(paddock.listed()) == ["notes"]


def test_what_only_its_author_can_mend_is_not_shown_to_a_person_who_consents(paddock: Paddock, source: Path) -> None:
    native(source, capabilities=[SAFE, SAFE], description="")

    shown = paddock.quickly("plugin", "install", source, "--yes").err
    assert "listed twice" not in shown and "is empty" not in shown
    checked = paddock.quickly("plugin", "check", source).err
    assert "listed twice" in checked and "is empty" in checked
