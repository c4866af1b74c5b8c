"""Every page of the console at three sizes: it fits its window, axe finds nothing on it, and its picture is kept.

Pages that a link leads to are found by following links; those that a form or a search leads to are listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.crawling import every_page, shape
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.packages import TEXT, native, write_file, write_json
from fixtures.page_clients import Person, signed_in
from fixtures.pictures import keep_whole_page
from fixtures.visitors import needs_a_browser, opened, visiting

pytestmark = [needs_a_browser, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
ENABLED = ("native-notes", "slow-count", "greeter", "outbox")
SIZES = (1440, 768, 390)  # pixels wide
DARK_SIZES = (1440, 390)
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
RULES = """
@id("notes-need-a-yes")
@text("Somebody reads every note before it is kept.")
@approval("action")
forbid (principal, action == Action::"callUnattended", resource == Callable::"native-notes.add_note");

@id("night-shift-posts-nothing")
@text("The night shift sends nothing to the outside.")
forbid (principal in Group::"night-shift", action in Action::"anyCall", resource);
"""
NEW_RULE = """@id("no-greetings")
@text("Nobody is greeted.")
forbid (principal, action in Action::"anyCall", resource == Callable::"greeter.greet");
"""
MAIN = """
import os
from paddock_sdk import Plugin
plugin = Plugin({name!r}, "1.0.0")
@plugin.tool
def send(params, context):
    os._exit(1)  # killed midway: nobody knows what became of it
@plugin.tool
def ask(params, context):
    return {{}}
plugin.run()
"""


def packages(folder: Path) -> list[tuple[Path, tuple[str, ...]]]:
    """Plugins for the pages that the examples have nothing for, each with what is granted to it."""

    def plugin(name: str, tool: str, effect: str, **fields: Any) -> Path:
        tools = [{"name": tool, "description": f"Does {tool}", "effects": [effect], "input_schema": TEXT}]
        native(folder / name, name, runtime={"command": ["python3", "./main.py"]}, tools=tools, **fields)
        write_file(folder / name / "main.py", MAIN.format(name=name))
        return folder / name

    fragile = plugin("fragile", "send", "db_write", capabilities=[])
    weather, storm = (
        plugin(
            name,
            "ask",
            "read_only",
            capabilities=["host:secrets"],
            secrets=[f"{name}_key", "my_token"],
            operation_auth={"ask": {"secrets": {f"{name}_key": "system"}}},
        )
        for name in ("weather", "storm")
    )
    reached = "net:api.example.com:443"
    first = native(folder / "turns-1", "turns", "1.0.0", capabilities=[reached])
    second = native(folder / "turns-2", "turns", "2.0.0", capabilities=[])
    return [(fragile, ()), (weather, ()), (storm, ()), (first, (f"--grant={reached}",)), (second, ())]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("every-page")


@pytest.fixture(scope="module")
def served(folder: Path) -> Generator[Daemon, None, None]:
    """A host on which something of every kind has happened."""
    paddock = Paddock(folder / "home")
    for name in (*ENABLED, "fourth-generation-formula"):
        paddock.quickly("plugin", "install", EXAMPLES / name, "--yes")
    for source, granted in packages(folder):
        paddock.quickly("plugin", "install", source, "--yes", *granted)
    for name in (*ENABLED, "fragile", "weather", "storm"):
        paddock.quickly("plugin", "enable", name, "--no-start")
    needy = {"command": "python3", "args": [str(write_file(folder / "needy" / "main.py", "open('/etc/needed')\n"))]}
    paddock.quickly("import", write_json(folder / "mcp.json", {"mcpServers": {"needy": needy}}), "--yes")
    paddock.quickly("user", "add", "ann", "--name", "Ann Lee", "--role", "operator")
    paddock.quickly("user", "add", "bo", "--name", "Bo Berg")
    paddock.quickly("user", "add", "nia", "--name", "Nia Moon")
    paddock.quickly("group", "add", "night-shift", "--title", "Night shift")
    paddock.quickly("group", "member", "add", "night-shift", "nia")
    write_file(paddock.home / "policies" / "ours.cedar", RULES)
    with daemon(paddock) as started:
        for name, params in (
            ("greeter.greet", {"name": "Ada"}),
            ("greeter.greet", {}),
            ("slow-count.count", {"to": 3, "pause_ms": 1}),
            ("fragile.send", {"text": "oats"}),
            ("native-notes.add_note", {"text": "Buy oats"}),
        ):
            started.ask("POST", "/calls", {"name": name, "params": params}, paddock_as="user:bo")
        yield started


@pytest.fixture(scope="module")
def ann(served: Daemon) -> Person:
    return signed_in(served, "ann")


def approval(served: Daemon) -> str:
    return served.ask("GET", "/approvals").body["approvals"][0]["id"]


def waits_for(ann: Person, path: str, text: str) -> str:
    """The path, once its page says so."""
    eventually(lambda: text in ann.get(path).text, f"{path} never says {text!r}")
    return path


class Look:
    """Looks at page after page in one window, and keeps what is wrong with them."""

    def __init__(self, page: Page, home: Path) -> None:
        self.page = page
        self.wide: list[str] = []
        self.found: list[str] = []
        self.names: list[str] = []
        self._home = home
        assert page.viewport_size is not None
        self._width = page.viewport_size["width"]

    def at(self, name: str) -> None:
        """Look at what the page shows, and keep its picture under this name."""
        self.names.append(name)
        self.page.emulate_media(color_scheme="light", reduced_motion="reduce")
        self.wide += [] if self.page.evaluate(FITS) else [name]
        keep_whole_page(self.page, name, self._home)
        self.found += violations(self.page)
        if self._width in DARK_SIZES:
            self.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
            keep_whole_page(self.page, name, self._home)
        self.page.emulate_media(color_scheme="light", reduced_motion="reduce")


@pytest.mark.parametrize("width", SIZES)
def test_every_link_leads_to_a_page_that_fits_its_window_and_axe_finds_nothing_on_it(
    browser: Browser, served: Daemon, ann: Person, width: int
) -> None:
    asked = approval(served)
    calls = served.ask("GET", "/calls").body["calls"]
    begin = [f"/inbox?open={asked}", f"/approvals/{asked}", "/plugins/native-notes", "/find?q=note", "/keys"]
    begin += [f"/calls/{one['call_id']}" for one in calls if one["plugin"] == "slow-count"]
    with visiting(browser, served, "ann", viewport={"width": width, "height": 900}, bypass_csp=True) as page:
        look = Look(page, served.paddock.home)
        for place in every_page(page, *begin):
            look.at(re.sub(r"\W+", "-", shape(place)).strip("-") or "home")

    assert look.wide == []
    assert look.found == []
    assert len(look.names) > 50
    assert set(look.names) > {"settings-groups-night-shift-remove", "settings-people-bo-remove", "unknown-outcomes-ID"}


@pytest.mark.parametrize("width", SIZES)
def test_what_forms_lead_to_fits_its_window_too_and_axe_finds_nothing_on_it(
    browser: Browser, served: Daemon, ann: Person, folder: Path, width: int
) -> None:
    courier = native(folder / f"courier-{width}", "courier", capabilities=["net:api.example.com:443", "net:*"])
    consent = ann.send("/install", source=str(courier)).location.removeprefix(ann.base)
    ann.send("/plugins/needy/try")
    ann.send("/settings/webhooks", **{"/url": "https://hooks.example.org/x", "/label": f"Tickets {width}"})
    ann.send("/secrets/set", name="weather_key", value="canary")
    webhook = served.ask("GET", "/webhooks").body["webhooks"][-1]["id"]
    fragile = next(one for one in served.ask("GET", "/calls").body["calls"] if one["plugin"] == "fragile")
    places = {
        "consent": waits_for(ann, consent, "2 dangerous permissions"),
        "trial": waits_for(ann, "/plugins/needy/try", "It does not answer"),
        "rollback": "/plugins/turns/versions/rollback?to=1.0.0",
        "plugin-to-repair": "/plugins/storm",
        "activation": "/plugins/fourth-generation-formula/activate",
        "call-of-unknown-outcome": f"/calls/{fragile['call_id']}",
        "webhook": f"/settings/webhooks/{webhook}",
        "webhook-removal": f"/settings/webhooks/{webhook}/remove",
        "secret-set": "/secrets/set?name=weather_key",
        "secret-removal": "/secrets/remove?name=weather_key",
        "decision-allowed": "/policy/try?who=user:ann&what=greeter.greet",
        "decision-denied": "/policy/try?who=user:nia&what=native-notes.add_note",
    }
    forms: dict[str, Callable[[Page], None]] = {
        "edit-review": lambda page: edit_request(page, approval(served)),
        "rule-review": add_rule,
        "rule-tests-result": run_rule_tests,
        "mistakes": run_with_mistakes,
        "new-key": lambda page: follow(page, "/settings/keys", **{"/owner": "bo", "/label": "nightly", "/lasts": "90"}),
        "sign-in-link": lambda page: follow(page, "/settings/people/bo/link"),
        "webhook-secret": lambda page: follow(page, f"/settings/webhooks/{webhook}/rotate"),
    }
    window = {"width": width, "height": 900}
    with visiting(browser, served, "ann", viewport=window, bypass_csp=True) as page:
        look = Look(page, served.paddock.home)
        for name, place in places.items():
            answer = page.goto(place)
            assert answer is not None and answer.status == 200, place
            look.at(name)
        for name, lead in forms.items():
            lead(page)
            look.at(name)
        for name, place, status in (("no-such-page", "/nowhere", 404), ("no-such-call", "/calls/call_nobody", 404)):
            answer = page.goto(place)
            assert answer is not None and answer.status == status, place
            look.at(name)
    with visiting(browser, served, "bo", viewport=window, bypass_csp=True) as page:
        of_member = Look(page, served.paddock.home)
        for name, place in {"home-of-a-member": "/", "refused": "/ledger", "request-of-a-member": "/inbox"}.items():
            page.goto(place)
            of_member.at(name)
    with opened(browser, ann.base, viewport=window, bypass_csp=True) as page:
        of_nobody = Look(page, served.paddock.home)
        for name, place in {"sign-in": "/", "sign-in-with-a-link": login_link(served)}.items():
            page.goto(place)
            of_nobody.at(name)

    looks = (look, of_member, of_nobody)
    assert [one for each in looks for one in each.wide] == []
    assert [one for each in looks for one in each.found] == []


def login_link(served: Daemon) -> str:
    return served.paddock.quickly("login", "--user", "bo", "--json").json["url"]


def follow(page: Page, path: str, **form: Any) -> None:
    """The page that sending a form leads to, once."""
    base = "/".join(page.url.split("/")[:3])
    sent = page.request.post(path, form=form, headers={"origin": base}, max_redirects=0)
    assert sent.status == 303, sent.text()
    page.goto(sent.headers["location"])
    expect(page.locator("#once")).to_be_visible()


def edit_request(page: Page, asked: str) -> None:
    page.goto(f"/approvals/{asked}")
    page.locator("summary", has_text="Edit").first.click()
    page.get_by_role("textbox", name=re.compile("^Text")).fill("Buy oats and hay")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("ins").first).to_contain_text("hay")


def add_rule(page: Page) -> None:
    page.goto("/policy/files/new")
    page.get_by_label("Name").fill("greetings")
    page.get_by_label("Rules, in Cedar").fill(NEW_RULE)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("alert")).to_contain_text("Not saved yet")


def run_rule_tests(page: Page) -> None:
    page.goto("/policy/tests")
    page.locator("main form").first.get_by_role("button").first.click()


def run_with_mistakes(page: Page) -> None:
    page.goto("/plugins/greeter/run/greet")
    page.locator("main form").get_by_role("button", name=re.compile("^Run")).click()
    expect(page.get_by_role("alert").first).to_be_visible()
