"""`paddock tenant`, `user`, `group` and `apikey`: who may act, looked after from the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.ledger_rows import all_rows
from paddock.core.call import Principal
from paddock.core.clock import SystemClock
from paddock.core.errors import Denied
from paddock.principals.api_keys import authenticate_key
from paddock.store.database import open_direct


def known(paddock: Paddock, token: str) -> Principal:
    with open_direct(paddock.store or paddock.home / "data" / "paddock.db") as database:
        return database.read(lambda tx: authenticate_key(tx, token, SystemClock().now()))


def told(paddock: Paddock, kind: str, tenant: str = "default") -> list[str]:
    """The record of one kind of event, as text."""
    with open_direct(paddock.home / "data" / "paddock.db") as database:
        rows = database.read(lambda tx: all_rows(tx, tenant))
    return [f"{row.facts} {row.personal}" for row in rows if row.type == kind]


def test_people_of_a_tenant_are_added_listed_changed_and_removed(paddock: Paddock) -> None:
    paddock.quickly("tenant", "add", "acme", "--title", "Acme Labs")
    made = paddock.quickly("user", "add", "ann", "--name", "Ann Lee", "--tenant", "acme", "--json").json
    assert (made["id"], made["roles"], made["state"]) == ("user:ann", ["member"], "enabled")
    changed = paddock.quickly("user", "role", "add", "ann", "approver", "guest", "--tenant", "acme", "--json").json
    assert changed["roles"] == ["approver", "guest", "member"]
    paddock.quickly("user", "role", "remove", "ann", "guest", "--tenant", "acme")
    paddock.quickly("user", "scope", "add", "ann", "email:send", "--tenant", "acme")
    paddock.quickly("user", "disable", "ann", "--tenant", "acme")
    paddock.quickly("group", "add", "night-shift", "--tenant", "acme")
    paddock.quickly("group", "member", "add", "night-shift", "ann", "--tenant", "acme")

    shown = paddock.quickly("user", "show", "ann", "--tenant", "acme", "--json").json
    (group,) = paddock.quickly("group", "list", "--tenant", "acme", "--json").json["groups"]
    assert paddock.quickly("group", "show", group["name"], "--tenant", "acme", "--json").json == group
    listed = paddock.quickly("user", "list", "--tenant", "acme").out

    assert (shown["roles"], shown["scopes"], shown["state"]) == (["approver", "member"], ["email:send"], "disabled")
    assert (shown["display_name"], shown["groups"], group["members"]) == ("Ann Lee", ["night-shift"], ["ann"])
    assert re.search(r"^ann +disabled +approver, member +Ann Lee$", listed, re.MULTILINE)
    assert paddock.quickly("user", "list", "--json").json["people"] == [], "the default tenant has its own"
    paddock.quickly("user", "enable", "ann", "--tenant", "acme")
    paddock.quickly("user", "remove", "ann", "--tenant", "acme", "--yes")
    paddock.quickly("group", "remove", "night-shift", "--tenant", "acme", "--yes")
    assert paddock.quickly("user", "list", "--tenant", "acme", "--json").json["people"] == []


def test_every_change_is_in_the_record_of_its_tenant_with_who_made_it(paddock: Paddock) -> None:
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "ann", "--tenant", "acme")

    (made,), (added,) = told(paddock, "tenant.created"), told(paddock, "person.added", "acme")
    assert "acme" in made
    assert "user:ann" in added
    assert "local:" in made
    assert "local:" in added
    assert told(paddock, "person.added") == []


def test_the_token_of_a_key_is_printed_once_and_is_nowhere_afterwards(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann", "--scope", "email:send")
    said = paddock.quickly("apikey", "add", "ann", "--label", "mailer", "--scope", "email:send", "--expires", "30d")
    token = said.out.strip()
    secret = token.rpartition("_")[2]

    assert re.fullmatch(r"pdk_[a-z2-7]{8}_[a-z2-7]{52}", token), "alone on stdout, for a script"
    who = known(paddock, token)
    assert (who.person, who.roles, who.scopes) == ("user:ann", {"member"}, {"email:send"})
    (listed,) = paddock.quickly("apikey", "list", "--json").json["keys"]
    assert (listed["state"], listed["label"], listed["expires_at"] > listed["created_at"]) == ("live", "mailer", True)
    assert paddock.quickly("apikey", "show", listed["id"], "--json").json == listed
    shown = [
        paddock.quickly(*words)
        for words in (("apikey", "list"), ("apikey", "show", listed["id"]), ("user", "show", "ann"))
    ]
    assert secret not in said.err + "".join(one.out + one.err for one in shown)
    assert "mailer" in shown[1].out
    kept = [path for path in paddock.home.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    assert kept == []
    (recorded,) = told(paddock, "api_key.created")
    assert who.id.removeprefix("key:") in recorded


def test_a_revoked_key_works_no_more_and_asking_for_it_takes_a_yes(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann")
    made = paddock.quickly("apikey", "add", "ann", "--json").json
    waiting = paddock.quickly("apikey", "remove", made["id"], code=4)
    assert f"paddock apikey remove {made['id']} --yes" in waiting.err
    known(paddock, made["token"])

    assert paddock.quickly("apikey", "remove", made["id"], "--yes", "--json").json["state"] == "revoked"

    with pytest.raises(Denied):
        known(paddock, made["token"])
    typed = paddock.quickly("apikey", "remove", made["token"], "--yes", code=3)
    assert made["token"] not in typed.err, "who types the token instead of the id does not see it again"


def test_a_key_never_gets_what_its_owner_lacks_and_wrong_times_are_told(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann")
    refused = paddock.quickly("apikey", "add", "ann", "--role", "operator", code=6)
    assert "ann does not have operator, and a key cannot have more than its owner" in refused.err
    for wrong in ("30", "d", "-1d", "1y", "0d"):
        assert "such as 12h or 30d" in paddock.quickly("apikey", "add", "ann", f"--expires={wrong}", code=2).err


def test_a_tenant_with_people_or_a_past_is_not_removed_and_says_what_to_do(paddock: Paddock) -> None:
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "ann", "--tenant", "acme")
    said = paddock.quickly("tenant", "remove", "acme", "--yes", "--json", code=1)
    assert (said.error["code"], said.error["details"]["people"]) == ("tenant.in_use", 1)
    assert said.error["action"] == {"kind": "user.remove", "arguments": {"tenant": "acme"}}

    paddock.quickly("user", "remove", "ann", "--tenant", "acme", "--yes")
    said = paddock.quickly("tenant", "remove", "acme", "--yes", code=1)
    assert "a tenant with ledger entries cannot be removed" in said.err
    assert "cannot be removed" in paddock.quickly("tenant", "remove", "default", "--yes", code=6).err
    paddock.quickly("tenant", "add", "empty")
    paddock.quickly("tenant", "remove", "empty", "--yes")
    tenants = paddock.quickly("tenant", "list", "--json").json["tenants"]
    assert [one["name"] for one in tenants] == ["default", "acme"]
    assert paddock.quickly("tenant", "show", "acme", "--json").json == tenants[1]
    assert paddock.quickly("tenant", "show", "nowhere", "--json", code=3).error["code"] == "tenant.not_found"


def test_mistakes_are_told_with_what_to_do(paddock: Paddock) -> None:
    assert "paddock tenant list" in paddock.quickly("user", "list", "--tenant", "nowhere", code=3).err
    assert "paddock user add" in paddock.quickly("user", "show", "ann", code=3).err
    assert "small letters" in paddock.quickly("user", "add", "Ann Lee", code=6).err
    paddock.quickly("user", "add", "ann")
    assert "paddock user show ann" in paddock.quickly("user", "add", "ann", code=1).err
    assert "did you mean approver?" in paddock.quickly("user", "role", "add", "ann", "aprover").err
    assert "paddock group list" in paddock.quickly("group", "member", "add", "nobody", "ann", code=3).err
    paddock.quickly("group", "add", "some")
    assert "already" in paddock.quickly("group", "add", "some", code=1).err


def test_the_same_holds_on_a_shared_store(postgres_address: str, tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home", store=postgres_address)
    paddock.quickly("user", "add", "ann")
    token = paddock.quickly("apikey", "add", "ann").out.strip()
    assert known(paddock, token).person == "user:ann"


def test_who_somebody_is_at_an_identity_provider_can_be_said_shown_and_forgotten(paddock: Paddock) -> None:
    paddock.quickly("user", "add", "ann")
    unset = paddock.quickly("user", "identity", "add", "ann", "--subject", "s1", "--json", code=6)
    assert unset.error["code"] == "oidc.no_issuer"
    there = ("--issuer", "https://login.example.org")
    said = paddock.quickly("user", "identity", "add", "ann", "--subject", "s1", *there, "--json").json
    assert said == {"id": "user:ann", "identities": [{"issuer": there[1], "subject": "s1"}]}
    assert paddock.quickly("user", "identity", "add", "ann", "--subject", "s2", *there, "--json", code=1).error[
        "code"
    ] == ("identity.taken")
    assert paddock.quickly("user", "identity", "remove", "ann", *there, "--json").json["identities"] == []
    assert len(told(paddock, "identity.linked")) == 2
    gone = paddock.quickly("user", "identity", "remove", "ann", *there, "--json", code=3)
    assert gone.error["code"] == "identity.not_found"
