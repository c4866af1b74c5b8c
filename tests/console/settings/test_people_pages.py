"""People and groups at the console: added, renamed, given scopes, put into groups, and removed."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.page_clients import Person, signed_in
from fixtures.people import key_of
from fixtures.visitors import needs_a_browser, visiting

RULE = """
@id("night-shift-posts-nothing") @text("The night shift sends nothing to the outside.")
forbid (principal in Group::"night-shift", action in Action::"anyCall", resource);
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    paddock = Paddock(tmp_path_factory.mktemp("people-pages") / "home")
    paddock.quickly("user", "add", "ann", "--name", "Ann Lee")
    paddock.quickly("user", "add", "olga", "--role", "operator")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    folder = paddock.home / "policies"
    folder.mkdir(mode=0o700)
    (folder / "ours.cedar").write_text(RULE)
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def olga(served: Daemon) -> Person:
    return signed_in(served, "olga")


def person(served: Daemon, name: str) -> dict[str, Any]:
    return served.ask("GET", f"/people/{name}").body


@needs_a_browser
def test_an_operator_adds_a_person_and_a_group_and_removes_both(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "olga", bypass_csp=True) as page:
        page.goto("/settings/people")
        page.get_by_label("Name", exact=False).first.fill("Bea B")
        page.get_by_label("Full name").fill("Bea Berg")
        page.get_by_label("Scopes").fill("email:send\nno scope")
        page.get_by_role("checkbox", name="approver").check()  # nothing covers it
        page.get_by_role("button", name="Add person").click()
        expect(page.get_by_role("alert")).to_contain_text("2 mistakes")
        page.get_by_label("Name", exact=False).first.fill("bea")
        page.get_by_label("Scopes").fill("email:send")
        page.get_by_role("button", name="Add person").click()
        expect(page.get_by_role("heading", name="Bea Berg")).to_be_visible()
        assert person(served, "bea")["scopes"] == ["email:send"]

        page.goto("/settings/groups")
        page.get_by_label("Name", exact=False).first.fill("night-shift")
        page.get_by_role("button", name="Add group").click()
        page.get_by_label("Add a person").select_option("bea")
        page.get_by_role("button", name="Add to the group").click()
        expect(page.get_by_role("link", name="Bea Berg")).to_be_visible()
        expect(page.get_by_role("link", name="The night shift sends nothing")).to_be_visible()
        assert person(served, "bea")["groups"] == ["night-shift"]
        found = violations(page)

        page.get_by_role("link", name="Bea Berg").click()
        page.get_by_label("Display name").fill("Bea Hill")
        page.get_by_role("button", name="Rename").click()
        expect(page.get_by_role("heading", name="Bea Hill")).to_be_visible()
        page.get_by_label("night-shift").uncheck()
        page.get_by_role("button", name="Save groups").click()
        expect(page.get_by_text("Groups saved.")).to_be_visible()
        assert person(served, "bea")["groups"] == []
        found += violations(page)

        page.get_by_role("link", name="Remove Bea Hill").click()
        page.get_by_label("Type bea to go on").fill("be")
        page.get_by_role("button", name="Remove person").click()
        expect(page.get_by_role("alert")).to_contain_text("type bea")
        found += violations(page)
        page.get_by_label("Type bea to go on").fill("bea")
        page.get_by_role("button", name="Remove person").click()
        expect(page.get_by_text("Removed, with their keys")).to_be_visible()
        assert served.ask("GET", "/people/bea").status == 404

        page.goto("/settings/groups/night-shift/remove")
        expect(page.get_by_text("1 rule names it")).to_be_visible()
        page.get_by_role("button", name="Remove group").click()
        expect(page.get_by_text("There are no groups yet")).to_be_visible()
        assert found == []


def test_a_display_name_and_scopes_change_and_what_another_changed_meanwhile_stays(
    served: Daemon, olga: Person
) -> None:
    changed = served.ask("POST", "/people/ann/rename", {"display_name": "Ann Hill"})
    assert (changed.status, changed.body["display_name"]) == (200, "Ann Hill")
    assert served.paddock.quickly("user", "rename", "ann", "", "--json").json["display_name"] == "ann"
    assert served.ask("POST", "/people/ann/rename", {"display_name": "x" * 201}).status == 400
    assert olga.send("/settings/people/ann/rename", display_name="x" * 201).status == 422
    events = served.ask("GET", "/ledger?type=person.changed").body["entries"]
    changes = [one["facts"]["change"] for one in events if one["personal"]["person"] == "user:ann"]
    assert changes == ["renamed", "renamed"]

    olga.followed("/settings/people/ann/scopes", scopes="email:send\r\nmail:read")
    served.paddock.quickly("user", "scope", "add", "ann", "audit:read")  # while the page was open
    olga.followed("/settings/people/ann/scopes", had=["email:send", "mail:read"], scopes="mail:read")
    assert person(served, "ann")["scopes"] == ["audit:read", "mail:read"]
    wrong = olga.send("/settings/people/ann/scopes", had=[], scopes="not a scope")
    assert (wrong.status, "not a scope" in wrong.text) == (422, True)


def test_people_and_groups_are_changed_by_operators_of_their_tenant_in_person(served: Daemon, olga: Person) -> None:
    olga.followed("/settings/groups", **{"/name": "office", "/title": "The <b>office</b>"})
    assert "&lt;b&gt;office" in olga.get("/settings/groups/office").text
    assert olga.send("/settings/groups", **{"/name": "office"}).status == 422
    assert "2 mistakes" in olga.send("/settings/groups", **{"/name": "Of fice", "/title": "x" * 201}).text
    assert olga.send("/settings/groups/office/members", person="nobody").status == 422
    ann, omar = signed_in(served, "ann"), signed_in(served, "omar", "--tenant", "acme")
    places = ("/settings/people/ann/rename", "/settings/people/ann/scopes", "/settings/people/ann/groups")
    groups = (
        "/settings/groups/office/members",
        "/settings/groups/office/members/remove",
        "/settings/groups/office/remove",
    )
    for place in (*places, *groups, "/settings/people/ann/remove"):
        assert (ann.send(place, person="ann").status, omar.send(place, person="omar").status) == (403, 404), place

    token = key_of(served.paddock, "olga", "--role", "operator")
    form = {"content_type": "application/x-www-form-urlencoded", "authorization": f"Bearer {token}"}
    for place in ("/settings/groups/office/remove", "/settings/people/ann/rename", "/settings/groups"):
        answer = served.ask_tcp("POST", f"/{place}", b"%2Fname=mole&display_name=mole", **form)
        assert (answer.status, answer.body["code"]) == (403, "auth.person_needed"), place
    assert "You can’t remove yourself" in olga.get("/settings/people/olga/remove").text
    assert olga.send("/settings/people/olga/remove", confirm="olga").status == 409
    assert served.ask("GET", "/groups/office").body["members"] == []
