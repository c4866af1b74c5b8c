"""`paddock consent`: what a person agreed to, kept and taken back."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.packages import kernel
from fixtures.parrot import parrot


@pytest.mark.req("K-28")
def test_a_consent_is_given_after_seeing_what_it_is_to_and_taken_back(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", parrot(source / "parrot"), "--yes")
    paddock.quickly("user", "add", "ann")
    waiting = paddock.quickly("consent", "add", "parrot.say", "--for", "user:ann", code=4)
    assert "paddock consent add parrot.say --for user:ann --yes" in waiting.err
    assert "effects" in waiting.err

    given = paddock.quickly("consent", "add", "parrot.say", "--for", "user:ann", "--yes", "--json").json
    mine = paddock.quickly("consent", "add", "parrot.say", "--yes", "--json").json

    assert (given["person"], given["plugin"], given["callable"]) == ("user:ann", "parrot", "say")
    assert given["given_by"] == mine["person"] == mine["given_by"]
    assert paddock.quickly("consent", "show", "parrot.say", "--for", "user:ann", "--json").json == given
    assert paddock.quickly("user", "show", "ann", "--json").json["consents"] == ["parrot.say"]
    taken = paddock.quickly("consent", "remove", "parrot.say", "--for", "user:ann", "--json").json
    assert taken["revoked_at"] > given["given_at"]
    gone = paddock.quickly("consent", "show", "parrot.say", "--for", "user:ann", "--json", code=3)
    assert gone.error["code"] == "consent.not_found"
    assert [one["person"] for one in paddock.quickly("consent", "list", "--json").json["consents"]] == [mine["person"]]
    assert "user:ann" in paddock.quickly("consent", "list", "--all").out
    assert "has not consented" in paddock.quickly("consent", "remove", "parrot.say", "--for", "user:ann", code=3).err


def test_a_consent_goes_with_its_plugin(paddock: Paddock, source: Path) -> None:
    package = kernel(source / "send", "Gmail.Send")
    paddock.quickly("plugin", "install", package, "--yes")
    paddock.quickly("consent", "add", "Gmail.Send", "--yes")
    assert "Gmail.Send" in paddock.quickly("consent", "list").out
    paddock.quickly("plugin", "remove", "Gmail.Send", "--yes")
    paddock.quickly("plugin", "install", package, "--yes")

    assert paddock.quickly("consent", "list", "--all", "--json").json["consents"] == []


def test_only_people_consent_and_only_to_what_is_installed(paddock: Paddock, source: Path) -> None:
    paddock.quickly("plugin", "install", parrot(source / "parrot"), "--yes")
    assert "only people" in paddock.quickly("consent", "add", "parrot.say", "--for", "agent:main", "--yes", code=6).err
    assert "no user 'bob'" in paddock.quickly("consent", "add", "parrot.say", "--for", "user:bob", "--yes", code=3).err
    assert "it offers: say" in paddock.quickly("consent", "add", "parrot.sing", "--yes", code=3).err
    assert "name a callable" in paddock.quickly("consent", "add", "parrot", "--yes", code=3).err
    assert "no installed plugin" in paddock.quickly("consent", "add", "robin.sing", "--yes", code=3).err
