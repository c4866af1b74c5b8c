"""Settings at the console: oneself, keys that are shown once, people, webhooks, and the host itself."""

from __future__ import annotations

import json
import re
from collections.abc import Generator
from html import unescape

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.browsing import Page
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.page_clients import Person, at, signed_in
from fixtures.parrot import parrot
from fixtures.people import key_of
from fixtures.visitors import needs_a_browser, visiting
from paddock.store.database import Transaction, open_direct

SCRIPT = "<img src=x onerror=\"document.title='bitten'\">\u202e"
SECRET = "correct-horse-battery"
TOKEN = re.compile(r"pdk_[a-z2-7]{8}_[a-z2-7]{52}")
LINK = re.compile(r"http://[0-9.:]+/login/pdl_[a-z2-7]{52}")
PLACES = ("/settings", "/settings/keys?all", "/settings/people", "/settings/people/ann", "/settings/host", "/ledger")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    settings = {
        "PADDOCK_LIMITS_CALL_TIMEOUT_S": "77",
        "PADDOCK_TELEMETRY_OTLP_ENDPOINT": f"http://me:{SECRET}@127.0.0.1:9",
    }
    folder = tmp_path_factory.mktemp("settings")
    paddock = Paddock(folder / "home", more=settings)
    paddock.quickly("plugin", "install", parrot(folder / "parrot"), "--yes")
    paddock.quickly("user", "add", "ann")
    paddock.quickly("user", "add", "olga", "--role", "operator", "--name", SCRIPT)
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "zoe", "--tenant", "acme", "--name", "Zoe of Acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def olga(served: Daemon) -> Person:
    return signed_in(served, "olga")


@pytest.fixture(scope="module")
def ann(served: Daemon) -> Person:
    return signed_in(served, "ann")


@pytest.fixture(scope="module")
def omar(served: Daemon) -> Person:
    return signed_in(served, "omar", "--tenant", "acme")


def make_key(by: Person, **form: str | list[str]) -> Page:
    """The page that shows a new key."""
    return by.followed("/settings/keys", **{"/owner": "ann", "/lasts": "90", **form})


def works(served: Daemon, token: str) -> bool:
    return served.ask_tcp("GET", "/me", authorization=f"Bearer {token}").status == 200


# --- keys -----------------------------------------------------------------------------------------------------------


def test_a_key_is_shown_once_works_and_is_found_on_no_page_again(served: Daemon, olga: Person) -> None:
    shown = make_key(olga, **{"/label": "nightly", "/roles": ["member"]})
    (token,) = TOKEN.findall(shown.text)

    assert works(served, token)
    assert shown.headers["cache-control"] == "no-store"
    again = olga.get("/settings/keys?" + shown.url.partition("?")[2])
    assert "A key is shown only once" in again.text
    for place in PLACES:
        page = olga.get(place)
        assert page.status == 200, place
        assert token not in page.text, place
        assert token[13:] not in page.text, place
    assert token not in "".join(served.log)
    assert token not in json.dumps(served.ask("GET", "/ledger?limit=200").body)
    assert "nightly" in olga.get("/settings/keys").text


def test_what_is_shown_once_is_shown_to_nobody_else(served: Daemon, olga: Person) -> None:
    sent = olga.send("/settings/keys", **{"/owner": "ann", "/lasts": "1"})
    another = signed_in(served, "operator")

    assert not TOKEN.search(another.browser.open(sent.location).text)
    assert TOKEN.search(olga.browser.open(sent.location).text)


def test_a_revoked_key_stops_working_at_once(served: Daemon, olga: Person) -> None:
    (token,) = TOKEN.findall(make_key(olga).text)
    assert works(served, token)
    where = at("settings", "keys", token[4:12], "revoke")

    asked = olga.get(where)
    assert "This can’t be undone" in asked.text
    assert works(served, token)  # looking at the question changes nothing
    assert "stopped working at once" in olga.followed(where).text

    assert not works(served, token)
    assert token[4:12] not in olga.get("/settings/keys").text
    assert token[4:12] in olga.get("/settings/keys?all").text


def test_all_mistakes_of_a_key_stand_at_their_fields_with_what_was_typed(olga: Person) -> None:
    wrong = {"/owner": "", "/label": "x" * 201, "/scopes": "fine:one\nnot a scope", "/lasts": "century"}
    page = olga.send("/settings/keys", **wrong)

    assert page.status == 422
    assert "4 mistakes" in page.text
    assert "not a scope" in page.text
    assert not TOKEN.search(page.text)


def test_a_key_never_has_more_than_its_owner(olga: Person) -> None:
    page = olga.send("/settings/keys", **{"/owner": "ann", "/roles": ["operator"], "/lasts": "1"})

    assert page.status == 422
    assert "ann does not have operator" in page.text


def test_a_member_sees_and_revokes_their_own_keys_and_makes_none(served: Daemon, olga: Person, ann: Person) -> None:
    (mine,) = TOKEN.findall(make_key(olga, **{"/label": "for ann"}).text)
    (hers,) = TOKEN.findall(make_key(olga, **{"/owner": "olga", "/label": "for olga"}).text)

    listed = ann.get("/settings/keys").text
    assert "for ann" in listed
    assert "for olga" not in listed
    assert ann.send("/settings/keys", **{"/owner": "ann", "/lasts": "1"}).status == 403
    assert ann.get(at("settings", "keys", hers[4:12], "revoke")).status == 404
    assert ann.send(at("settings", "keys", hers[4:12], "revoke")).status == 404
    ann.followed(at("settings", "keys", mine[4:12], "revoke"))

    assert (works(served, mine), works(served, hers)) == (False, True)


def test_no_program_makes_itself_a_key_or_a_person(served: Daemon) -> None:
    token = key_of(served.paddock, "olga", "--role", "operator")
    form = {"content_type": "application/x-www-form-urlencoded", "authorization": f"Bearer {token}"}
    sent = {
        "//settings/keys": b"%2Fowner=ann&%2Flasts=never",
        "//settings/people": b"%2Fname=mole",
        "//settings/people/ann/roles": b"role=operator",
        "//settings/people/ann/link": b"",
    }
    for where, body in sent.items():
        answer = served.ask_tcp("POST", where, body, **form)
        assert answer.status == 403, where
        assert answer.body["code"] == "auth.person_needed", where
    people = served.paddock.quickly("user", "list", "--json").json["people"]
    assert {one["name"]: one["roles"] for one in people if one["name"] in ("ann", "mole")} == {"ann": ["member"]}


# --- people ---------------------------------------------------------------------------------------------------------


def test_somebody_is_added_let_in_given_a_role_and_disabled(served: Daemon, olga: Person) -> None:
    added = olga.followed("/settings/people", **{"/name": "bea", "/display_name": "Bea B.", "/roles": ["guest"]})
    assert "Bea B." in added.text
    (link,) = LINK.findall(olga.followed("/settings/people/bea/link").text)
    bea = Person(olga.base)
    bea.browser.open(link, {})
    assert "user:bea" in bea.get("/settings").text
    assert bea.browser.open(link, {}).status == 403  # it works once

    olga.followed("/settings/people/bea/roles", had=["guest"], role=["member"], another="auditor")
    rights = served.paddock.quickly("user", "show", "bea", "--json").json
    assert rights["roles"] == ["auditor", "member"]
    olga.followed("/settings/people/bea/disable")
    assert bea.get("/settings").status == 401
    olga.followed("/settings/people/bea/enable")
    assert bea.get("/settings").status == 200
    olga.followed("/settings/people/bea/sign-out")
    assert bea.get("/settings").status == 401


def test_people_are_found_by_their_names_and_roles(olga: Person) -> None:
    found = olga.get("/settings/people?q=operator").text

    assert "/settings/people/olga" in found
    assert "/settings/people/ann" not in found
    assert "No people match" in olga.get("/settings/people?q=zebra").text


def test_of_very_many_people_and_keys_some_are_listed_and_the_others_are_found(served: Daemon) -> None:
    paddock, many = served.paddock, [f"p{number}" for number in range(250)]
    paddock.quickly("tenant", "add", "crowd")
    paddock.quickly("user", "add", "cleo", "--tenant", "crowd", "--role", "operator")
    with open_direct(paddock.home / "data" / "paddock.db") as store:
        person = "INSERT INTO people (tenant, name, display_name, disabled, created_at) VALUES ('crowd', ?, ?, 0, ?)"
        key = (
            "INSERT INTO api_keys (id, tenant, owner, label, hash, roles, scopes, created_at, created_by)"
            " VALUES (?, 'crowd', ?, ?, ?, '[]', '[]', ?, 'user:cleo')"
        )
        now = "2030-01-01T00:00:00+00:00"

        def crowd(tx: Transaction) -> None:
            for name in many:
                tx.execute(person, (name, name, now))
                tx.execute(key, (f"k{name}", name, f"key of {name}", name, now))

        store.write(crowd)
    cleo = signed_in(served, "cleo", "--tenant", "crowd")

    listed, found = cleo.get("/settings/keys").text, cleo.get("/settings/keys?q=p17+key").text
    assert (listed.count("Revoke the key "), "And 50 others" in listed) == (200, True)
    assert found.count("Revoke the key ") == 11
    tried = cleo.get("/policy/try?person=user:p99&other=lathe.cut&effect=read_only").text
    assert tried.count('value="user:p') <= 201, "those who can be chosen, and who was typed"
    assert 'name="person" value="user:p99"' in tried and ">p99</span></strong> may" in tried


def test_a_link_is_shown_once(olga: Person) -> None:
    sent = olga.send("/settings/people/ann/link")
    (link,) = LINK.findall(olga.browser.open(sent.location).text)

    assert "A link is shown only once" in olga.browser.open(sent.location).text
    for place in PLACES:
        assert link.rpartition("/")[2] not in olga.get(place).text, place


def test_what_another_changed_meanwhile_is_left_as_it_is(served: Daemon, olga: Person) -> None:
    olga.followed("/settings/people", **{"/name": "cay", "/roles": ["member"]})
    served.paddock.quickly("user", "role", "add", "cay", "auditor")  # while the page was open

    olga.followed("/settings/people/cay/roles", had=["member"], role=["member", "guest"])

    assert served.paddock.quickly("user", "show", "cay", "--json").json["roles"] == ["auditor", "guest", "member"]


def test_nobody_locks_themselves_out(olga: Person) -> None:
    assert olga.send("/settings/people/olga/disable").status == 409
    assert olga.send("/settings/people/olga/roles", had=["operator"], role=[]).status == 409
    assert olga.get("/settings/people").status == 200


def test_mistakes_of_a_person_stand_at_their_fields(olga: Person) -> None:
    wrong = olga.send("/settings/people", **{"/name": "No Name", "/display_name": "y" * 201})
    taken = olga.send("/settings/people", **{"/name": "ann"})

    assert (wrong.status, taken.status) == (422, 422)
    assert "2 mistakes" in wrong.text
    assert 'value="No Name"' in wrong.text
    assert "already" in taken.text
    odd = olga.send("/settings/people/ann/roles", had=["member"], role=["member"], another="No Role")
    assert odd.status == 422
    assert 'value="No Role"' in odd.text


# --- whose it is ----------------------------------------------------------------------------------------------------


def test_members_see_none_of_the_operators_pages(ann: Person, omar: Person) -> None:
    for place in ("/settings/people", "/settings/people/ann", "/settings/host", "/settings/host/check"):
        assert ann.get(place).status == 403, place
    assert ann.get("/settings/webhooks").status == 403
    assert ann.send("/settings/people/ann/roles", role=["operator"]).status == 403
    assert "This host" not in ann.get("/settings").text
    assert omar.get("/settings/host").status == 403  # operates a tenant, and not the host
    assert omar.get("/settings/people").status == 200


def test_what_is_another_tenants_is_as_unknown_as_what_nobody_has(served: Daemon, olga: Person, omar: Person) -> None:
    (token,) = TOKEN.findall(make_key(olga).text)
    key = token[4:12]
    sessions = json.dumps(served.paddock.quickly("user", "session", "list", "--json").json)

    assert omar.get("/settings/people/ann").status == 404
    assert omar.send("/settings/people/ann/disable").status == 404
    assert omar.send("/settings/people/ann/link").status == 404
    assert omar.get(at("settings", "keys", key, "revoke")).status == 404
    assert omar.send(at("settings", "keys", key, "revoke")).status == 404
    for session in re.findall(r"ses_[0-9a-f]+", sessions):
        assert omar.send(at("settings", "sessions", session, "end")).status == 404
    assert omar.send("/settings/keys", **{"/owner": "ann", "/lasts": "1"}).status == 422
    assert "ann" not in re.findall(r'people/([^"]+)"', omar.get("/settings/people").text)
    assert "Zoe of Acme" in omar.get("/settings/people").text
    assert "Zoe" not in olga.get("/settings/people").text
    assert works(served, token)


def test_a_form_of_somebody_elses_page_changes_nothing(served: Daemon, olga: Person) -> None:
    refused = olga.send("/settings/people", origin="http://evil.example", **{"/name": "mole"})

    assert refused.status == 403
    assert olga.get("/settings/people/mole").status == 404


def test_what_people_are_called_is_text(olga: Person, ann: Person) -> None:
    make_key(olga, **{"/label": SCRIPT})
    for person, place in ((olga, "/settings/people"), (olga, "/settings/people/olga"), (ann, "/settings/keys")):
        page = person.get(place).text
        assert "<img src=x" not in page, place
        assert "&lt;img src=x" in page, place
        assert "\u202e" not in page, place


# --- oneself --------------------------------------------------------------------------------------------------------


def test_somebody_withdraws_what_they_consented_to(served: Daemon, ann: Person, olga: Person) -> None:
    assert "What you consent to shows up here" in ann.get("/settings").text
    served.paddock.quickly("consent", "add", "parrot.say", "--for", "user:ann", "--yes")
    assert "parrot · say" in ann.get("/settings").text

    assert olga.send("/settings/consents/revoke", plugin="parrot", callable="say").status == 404  # it is not hers
    assert "withdrawn" in ann.followed("/settings/consents/revoke", plugin="parrot", callable="say").text

    assert served.paddock.quickly("consent", "list", "--for", "user:ann", "--json").json["consents"] == []


def test_somebody_signs_out_elsewhere_and_everywhere(served: Daemon) -> None:
    here, there, third = (signed_in(served, "ann") for _ in range(3))
    unused = served.paddock.quickly("login", "--user", "ann", "--json").json["url"]
    page = here.get("/settings").text
    assert "this browser" in page
    before = set(re.findall(r"/settings/sessions/(ses_\w+)/end", there.get("/settings").text))
    mine = before - set(re.findall(r"/settings/sessions/(ses_\w+)/end", page))
    assert len(mine) == 1

    there.followed(at("settings", "sessions", mine.pop(), "end"))
    assert (here.get("/settings").status, third.get("/settings").status) == (401, 200)

    assert there.send("/settings/sign-out-everywhere").status == 303
    assert (there.get("/settings").status, third.get("/settings").status) == (401, 401)
    assert Person(here.base).browser.open(unused, {}).status == 403


# --- the host -------------------------------------------------------------------------------------------------------


def test_every_setting_is_told_with_where_it_comes_from_and_no_secret(olga: Person) -> None:
    page = olga.get("/settings/host").text

    assert "limits.call_timeout_s" in page
    assert "environment PADDOCK_LIMITS_CALL_TIMEOUT_S" in page
    assert ">77" in page
    assert SECRET not in page
    assert "store.url" in page
    found = olga.get("/settings/host?q=call_timeout").text
    assert "limits.call_timeout_s" in found
    assert "<code>oidc.issuer</code></dt>" not in found


def test_the_machine_is_checked_as_doctor_does(olga: Person) -> None:
    page = unescape(olga.get("/settings/host/check").text)

    assert "bubblewrap" in page
    assert "runs and answers" in page


def test_webhooks_are_listed_with_how_they_are_doing(served: Daemon, olga: Person, omar: Person) -> None:
    assert "There are no webhooks yet" in olga.get("/settings/webhooks").text
    hook = "https://hooks.example.org/x"
    made = served.ask("POST", "/webhooks", {"url": hook, "types": ["call.*"], "label": "tickets"})
    assert made.status == 201, made.body

    page = olga.get("/settings/webhooks").text
    assert "tickets" in page
    assert "Working" in page
    assert "tickets" not in omar.get("/settings/webhooks").text


# --- in a browser ---------------------------------------------------------------------------------------------------


@needs_a_browser
def test_an_operator_creates_a_key_copies_it_and_revokes_it(browser: Browser, served: Daemon) -> None:
    allowed = ["clipboard-read", "clipboard-write"]
    with visiting(browser, served, "operator", permissions=allowed) as page:
        page.get_by_role("link", name="Admin").click()
        page.get_by_role("link", name="API keys").click()
        page.get_by_label("Name", exact=True).fill("pressed")
        page.get_by_label("Acts for").select_option("ann")
        page.get_by_role("button", name="Create key").click()
        token = page.get_by_label("The key", exact=True).input_value()
        page.get_by_role("button", name="Copy").click()
        expect(page.get_by_role("button", name="Copied")).to_be_visible()
        assert page.evaluate("navigator.clipboard.readText()") == token
        assert works(served, token)

        page.reload()
        expect(page.get_by_text("A key is shown only once")).to_be_visible()
        page.get_by_role("button", name=f"Revoke the key {token[4:12]}").click()
        page.get_by_role("button", name="Revoke key").click()

        expect(page.get_by_role("status")).to_contain_text("stopped working at once")
        assert not works(served, token)


@needs_a_browser
@pytest.mark.slow
def test_every_page_is_there_for_people_who_do_not_see_it(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        found: list[str] = []
        places = ["/settings", "/settings/keys?all&made=x", "/settings/people", "/settings/people/ann?once=x"]
        for place in [*places, "/settings/webhooks", "/settings/host?q=http"]:
            page.goto(place)
            assert "bitten" not in page.title()
            page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
            found += violations(page)
        assert found == []
