"""`paddock plugin grant`: what a tenant grants to a plugin, shown and added to, with and without a daemon."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import native

ANY_HOST = "net:*"
READ = "read:fs:/opt/notes"


@pytest.mark.parametrize("served", [False, True], ids=["alone", "served"])
def test_a_tenant_grants_each_capability_by_itself_without_enabling_the_plugin(
    paddock: Paddock, source: Path, served: bool
) -> None:
    native(source, capabilities=[READ, ANY_HOST])
    paddock.quickly("plugin", "install", source, "--yes", "--grant", ANY_HOST)
    paddock.quickly("tenant", "add", "acme")
    if served:
        with daemon(paddock):
            grants_in_acme(paddock)
    else:
        grants_in_acme(paddock)


def grants_in_acme(paddock: Paddock) -> None:
    acme = ("--tenant", "acme")
    ours = paddock("plugin", "grant", "notes", "--json").json
    theirs = paddock("plugin", "grant", "notes", *acme, "--json").json
    assert (ours["granted"], ours["missing"]) == ([READ, ANY_HOST], [])
    assert (theirs["granted"], theirs["missing"]) == ([], [READ, ANY_HOST])
    assert (
        f"paddock plugin grant notes {READ} '{ANY_HOST}' --tenant acme"
        in paddock("plugin", "grant", "notes", *acme).err
    )

    unasked = paddock("plugin", "grant", "notes", ANY_HOST, *acme, "--json", code=4)
    assert [one["capability"] for one in unasked.error["details"]["dangers"]] == [ANY_HOST]
    assert unasked.error["hint"].endswith(f"paddock plugin grant notes '{ANY_HOST}' --tenant acme --yes")
    assert f"{ANY_HOST} — connect to every public host, on any port (dangerous)\n    It can send" in unasked.err
    unrequested = paddock("plugin", "grant", "notes", "exec:git:/", *acme, "--yes", "--json", code=6)
    assert unrequested.error["code"] == "capability.not_asked"
    assert paddock("plugin", "grant", "notes", *acme, "--json").json["granted"] == []

    granted = paddock("plugin", "grant", "notes", ANY_HOST, *acme, "--yes", "--json").json
    again = paddock("plugin", "grant", "notes", ANY_HOST, *acme, "--json").json
    assert (granted["new"], granted["missing"]) == ([ANY_HOST], [READ])
    assert (again["new"], again["granted"]) == ([], [ANY_HOST])
    assert paddock("plugin", "show", "notes", *acme, "--json").json["enabled"] is False
    recorded = paddock("ledger", "tail", "--type", "plugin.granted", *acme, "--json").out
    assert ANY_HOST in recorded
    still = paddock("plugin", "enable", "notes", *acme, "--yes", "--json", code=4).error
    assert READ in str(still["details"])
    both = paddock("plugin", "grant", "notes", READ, *acme, "--yes", "--json").json
    assert (both["new"], both["missing"]) == ([READ], [])


def test_a_grant_that_starts_a_waiting_plugin_says_so_and_shows_all_of_it(paddock: Paddock, source: Path) -> None:
    acme = ("--tenant", "acme")
    native(source / "one")
    native(source / "two", version="2.0.0", capabilities=[ANY_HOST])
    paddock.quickly("plugin", "install", source / "one", "--yes")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("plugin", "enable", "notes", *acme, "--yes", "--no-start")
    paddock.quickly("plugin", "install", source / "two", "--yes", "--grant", ANY_HOST)

    said = paddock.quickly("plugin", "grant", "notes", ANY_HOST, *acme, "--yes").err
    assert "notes is enabled: this starts it" in said
    assert "any port" in said and "tenant" in said
