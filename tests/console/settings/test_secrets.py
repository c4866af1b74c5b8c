"""Secrets and accounts at the console: a value goes in and never comes out again, on any page, in any log or file."""

from __future__ import annotations

import hashlib
import http.client
import re
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.accessibility import violations
from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file
from fixtures.visitors import needs_a_browser, visiting

pytestmark = needs_a_browser

ONE_LINE, LINES, IN_FILE, MISTAKEN, ANNS = (f"canary-{name}-9f3" for name in ("one", "many", "file", "wrong", "ann"))
CANARIES = (ONE_LINE, LINES, IN_FILE, MISTAKEN, ANNS)
PROGRAM = """
import hashlib
from paddock_sdk import Plugin
plugin = Plugin("weather", "1.0.0")
def known(name):
    value = plugin.host.secrets.get(name).wait()
    return None if value is None else hashlib.sha256(value.encode()).hexdigest()
@plugin.tool
def report(params, context):
    return {"token": known("my_token")}
@plugin.tool
def ask(params, context):
    return {"key": known("api_key"), "certificate": known("certificate")}
plugin.run()
"""


def weather(root: Path) -> Path:
    tools = [
        {"name": name, "description": name, "effects": ["read_only"], "input_schema": {"type": "object"}}
        for name in ("report", "ask")
    ]
    native(
        root,
        "weather",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=["host:secrets"],
        tools=tools,
        secrets=["api_key", "my_token", "certificate"],
        operation_auth={
            "report": {"secrets": {"my_token": "user"}, "provider": "google", "scopes": ["https://mail.google.com/"]},
            "ask": {"secrets": {"api_key": "system"}},
        },
        identities=[{"provider": "github", "scopes": ["repo"], "optional": True}],
    )
    write_file(root / "main.py", PROGRAM)
    return root


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("secrets")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", weather(folder / "weather"), "--yes")
    paddock.quickly("plugin", "enable", "weather", "--no-start")
    paddock.quickly("user", "add", "ann")
    paddock.quickly("consent", "add", "weather.report", "--for", "user:ann", "--yes")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    with daemon(paddock) as started:
        yield started


def set_secret(page: Page, at: str, field: str, value: str) -> None:
    page.goto(at)
    if field != "Value":
        page.get_by_text("It has several lines, or is a file").click()
    page.get_by_label(field, exact=True).fill(value)
    page.get_by_role("button", name=re.compile("Save|Replace")).click()
    expect(page.get_by_role("status")).to_have_text("Saved. The value is never shown again.")


def all_set(browser: Browser, served: Daemon) -> None:
    """Set what is not: the tests of a file may run apart from each other."""
    have = {one["name"] for one in served.paddock.quickly("secret", "list", "--json").json["secrets"]}
    wanted = {"api_key": ONE_LINE, "certificate": IN_FILE}
    if missing := wanted.keys() - have:
        with visiting(browser, served, "operator") as page:
            for name in missing:
                set_secret(page, f"/secrets/set?name={name}", "Value", wanted[name])


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def test_what_a_plugin_needs_is_set_on_a_page_and_reaches_the_plugin_alone(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/repairs")
        expect(page.get_by_text("weather needs the secret api_key")).to_be_visible()
        page.goto("/plugins")
        expect(page.get_by_role("link", name="api_key is not set, and ask cannot run")).to_be_visible()
        page.goto("/plugins/weather")
        expect(page.get_by_role("note")).to_contain_text("Your own my_token is not set: report cannot run for you")
        expect(page.get_by_role("alert")).to_contain_text("weather needs the secret api_key")
        expect(page.get_by_role("alert")).to_contain_text("ask cannot run without it")
        page.get_by_role("alert").get_by_role("button", name="Set it").click()  # to the form, with its name filled in
        page.get_by_label("Value", exact=True).fill(ONE_LINE)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("heading", name="Needed, and not set")).to_have_count(0)
        assert "needs the secret" not in page.request.get("/plugins/weather").text()
        row = page.get_by_role("row").filter(has_text="api_key")
        expect(row).to_contain_text("weather for ask")

        set_secret(page, "/secrets/set?name=certificate", "Paste it", f"-----\n{LINES}\n-----\n")
        assert served.paddock("call", "weather.ask", "--json").json["result"] == {
            "key": digest(ONE_LINE),
            "certificate": digest(f"-----\n{LINES}\n-----"),
        }
        page.goto("/secrets/set?name=certificate")
        page.get_by_text("It has several lines, or is a file").click()
        page.get_by_label("Or choose a file").set_input_files(
            {"name": "key.pem", "mimeType": "text/plain", "buffer": f"{IN_FILE}\n".encode()}
        )
        page.get_by_role("button", name="Replace").click()
        expect(page.get_by_role("row").filter(has_text="certificate")).to_contain_text("2")
        assert served.paddock("call", "weather.ask", "--json").json["result"]["certificate"] == digest(IN_FILE)
        page.goto("/repairs")
        expect(page.get_by_text("weather needs the secret api_key")).to_have_count(0)


def test_a_form_with_mistakes_comes_back_with_all_of_them_and_without_the_value(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/secrets/set")
        page.get_by_label("Name", exact=True).fill("no such name!")
        page.get_by_label("Value", exact=True).fill(MISTAKEN)
        page.get_by_role("button", name="Save").click()

        expect(page.get_by_role("alert")).to_contain_text("Nothing was changed")
        expect(page.get_by_label("Name", exact=True)).to_have_value("no such name!")
        expect(page.get_by_text("No secret can be called that")).to_be_visible()
        expect(page.get_by_text("Give the value again")).to_be_visible()
        assert MISTAKEN not in page.content()

        page.get_by_label("Name", exact=True).fill("")
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_text("Give it a name.")).to_be_visible()
        expect(page.get_by_text("Give a value.")).to_be_visible()


@pytest.mark.req("S-30")
def test_a_person_sees_which_accounts_and_secrets_plugins_want_of_them_and_sets_their_own(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "ann") as page:
        page.goto("/accounts")
        card = page.locator("main li.card").filter(has=page.get_by_role("heading", name="weather"))
        for provider in ("github", "google"):
            expect(card).to_contain_text(f"This host cannot connect accounts at {provider} yet")
        expect(card.get_by_role("button", name=re.compile("Connect"))).to_have_count(0)
        expect(card).to_contain_text("Needed for report")
        expect(card.get_by_role("button", name="api_key")).to_have_count(0)  # the tenant's own, and no affair of hers

        page.goto("/plugins/weather")
        page.get_by_role("note").get_by_role("button", name="Set it").click()
        page.get_by_label("Value", exact=True).fill(ANNS)
        page.get_by_role("button", name="Save").click()
        page.goto("/plugins/weather")
        expect(page.get_by_role("note")).to_have_count(0)
        page.goto("/accounts")
        expect(card).to_contain_text("version 1")
        page.goto("/plugins/weather/run/report?raw")
        page.get_by_role("button", name=re.compile("Run")).click()
        expect(page.get_by_role("main")).to_contain_text(digest(ANNS))

        for place in ("/accounts/secrets/set?name=api_key", "/accounts/secrets/remove?name=api_key"):
            answer = page.goto(place)
            assert answer is not None
            assert answer.status == 404, place
        page.goto("/accounts")
        page.on("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Revoke weather report").click()
        expect(page.get_by_text("No consents yet")).to_be_visible()
        page.get_by_role("button", name="Remove my_token").click()
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_role("status")).to_have_text("Removed for good.")


def test_members_and_other_tenants_learn_nothing_of_a_tenants_secrets(browser: Browser, served: Daemon) -> None:
    all_set(browser, served)
    with visiting(browser, served, "ann") as page:
        for place in ("/secrets", "/secrets/set", "/secrets/remove?name=api_key"):
            answer = page.goto(place)
            assert answer is not None
            assert answer.status == 403, place
    with visiting(browser, served, "omar", "--tenant", "acme") as page:
        page.goto("/secrets")
        expect(page.get_by_text("api_key")).to_have_count(0)
        expect(page.get_by_role("button", name="Rotate")).to_have_count(0)
        answer = page.goto("/secrets/remove?name=api_key")
        assert answer is not None
        assert answer.status == 404
        origin = {"origin": page.url.partition("/secrets")[0]}
        assert page.request.post("/secrets/remove", form={"name": "api_key"}, headers=origin).status == 404
        assert page.request.post("/secrets/rotate", headers=origin).status == 403


def test_a_program_with_an_operators_key_changes_nothing_on_these_pages(served: Daemon) -> None:
    served.paddock.quickly("user", "add", "olga", "--role", "operator")
    token = served.paddock.quickly("apikey", "add", "olga", "--role", "operator", "--json").json["token"]
    for place, sent in (
        ("/secrets/set", {"name": "api_key", "value": MISTAKEN}),
        ("/secrets/remove", {"name": "api_key"}),
        ("/secrets/rotate", {}),
        ("/accounts/secrets/set", {"name": "my_token", "value": MISTAKEN}),
        ("/repairs/fix", {"repair": "plugin.modified:weather", "action": "restore"}),
        ("/repairs/ignore", {"repair": "plugin.modified:weather"}),
        ("/unknown-outcomes/call_1", {"answer": "happened", "comment": "x", "sure": "1"}),
    ):
        connection = http.client.HTTPConnection(*served.tcp, timeout=PATIENCE)
        head = {"authorization": f"Bearer {token}", "content-type": "application/x-www-form-urlencoded"}
        connection.request("POST", place, urlencode(sent), head)
        answer = connection.getresponse()
        assert (answer.status, b"auth.person_needed" in answer.read()) == (403, True), place
        connection.close()


@pytest.mark.slow
def test_the_key_is_rotated_and_a_secret_removed_with_a_word_on_what_breaks(browser: Browser, served: Daemon) -> None:
    all_set(browser, served)
    with visiting(browser, served, "operator") as page:
        page.on("dialog", lambda dialog: dialog.accept())
        page.goto("/secrets")
        before = page.locator("section", has_text="sealed under").locator("code").inner_text()
        page.get_by_role("button", name="Rotate").click()
        expect(page.get_by_role("status")).to_have_text("All secrets are under a new key.")
        assert page.locator("section", has_text="sealed under").locator("code").inner_text() != before
        assert served.paddock("call", "weather.ask", "--json").json["result"]["key"] == digest(ONE_LINE)

        page.get_by_role("button", name="Remove api_key").click()
        expect(page.get_by_text("This stops working")).to_be_visible()
        expect(page.get_by_role("main")).to_contain_text("weather: ask is refused")
        page.get_by_role("button", name="Remove").click()
        expect(page.get_by_role("status")).to_have_text("Removed for good.")
        expect(page.get_by_role("heading", name="Needed, and not set")).to_be_visible()
        assert served.paddock("call", "weather.ask", "--json", code=6).error["code"] == "missing_secrets"


@pytest.mark.slow
def test_secrets_and_accounts_are_there_for_people_who_do_not_see_them(browser: Browser, served: Daemon) -> None:
    all_set(browser, served)
    places = ["/secrets", "/secrets/set", "/secrets/remove?name=certificate", "/accounts"]
    places += ["/accounts/secrets/set?name=my_token"]
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        found: list[str] = []
        for place in places:
            page.goto(place)
            found += violations(page)
        assert found == []


def test_no_value_is_on_any_page_in_any_log_or_in_any_file_of_the_home(browser: Browser, served: Daemon) -> None:
    all_set(browser, served)
    with visiting(browser, served, "operator") as page:
        for place in ("/", "/secrets", "/secrets/set?name=certificate", "/accounts", "/repairs", "/ledger", "/plugins"):
            page.goto(place)
            assert not any(canary in page.content() for canary in CANARIES), place
    told = served.paddock.quickly("ledger", "tail", "--type", "secret.*", "--json").out
    assert '"secret.set"' in told
    assert not any(canary in told for canary in CANARIES)
    assert not any(canary in "".join(served.log) for canary in CANARIES)
    for file in served.paddock.home.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not any(canary.encode() in content for canary in CANARIES), file
