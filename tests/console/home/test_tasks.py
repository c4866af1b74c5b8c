"""The tasks that the console is for, from Home, by keyboard alone, on a desk, a tablet and a phone.

Each task is an ordinary test at one size and slow at the two others; each size is in the ordinary run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import TEXT, native, write_file
from fixtures.people import key_of
from fixtures.visitors import needs_a_browser, press, tab_to, type_into, visiting

pytestmark = needs_a_browser

SIZES = (1440, 768, 390)  # pixels wide
MAIN = """
from paddock_sdk import Plugin
plugin = Plugin("desk", "1.0.0")
@plugin.tool
def say(params, context):
    plugin.log.info(params["text"])
    return {"said": params["text"]}
@plugin.tool
def fail(params, context):
    raise KeyError("no drawer")
@plugin.tool
def send(params, context):
    return {"sent": params["text"]}
@plugin.tool
def tell(params, context):
    return {"config": dict(plugin.config)}
plugin.run()
"""
SILENCE = """@id("silence")
@text("The desk says nothing.")
forbid (principal, action in Action::"anyCall", resource == Callable::"desk.say");
"""
COUNTED = """addEventListener("click", event => {
    if (event.isTrusted) sessionStorage.clicks = Number(sessionStorage.clicks || 0) + 1;
}, true)"""


def desk(root: Path) -> Path:
    """A plugin with something for each task."""

    def tool(name: str, effect: str, schema: Any) -> dict[str, Any]:
        return {"name": name, "description": f"Does {name}", "effects": [effect], "input_schema": schema}

    anything = {"type": "object"}
    tools = [tool("say", "read_only", TEXT), tool("fail", "read_only", anything), tool("send", "external_send", TEXT)]
    turns = {"type": "int_range", "label": "Turns", "min": 1, "max": 20, "step": 1, "default": 3}
    native(
        root,
        "desk",
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[],
        tools=[*tools, tool("tell", "read_only", anything)],
        config_schema={"type": "object", "properties": {"turns": {"type": "integer", "default": 3}}},
        knobs={"turns": {**turns, "binds_to": "config.turns"}},
    )
    write_file(root / "main.py", MAIN)
    return root


@dataclass(frozen=True, slots=True)
class Office:
    """A host whose operator does the tasks; an assistant of Ann's asks with a key."""

    served: Daemon
    key: str

    def made(self, tool: str, **params: Any) -> Any:
        """What a call by the assistant came to."""
        authorization = f"Bearer {self.key}"
        return self.served.ask_tcp("POST", f"/plugins/desk/call/{tool}", params, authorization=authorization).body


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Generator[Office, None, None]:
    folder = tmp_path_factory.mktemp("tasks")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", desk(folder / "desk"), "--yes")
    paddock.quickly("plugin", "enable", "desk", "--no-start")
    paddock.quickly("user", "add", "ann")
    key = key_of(paddock, "ann", "--label", "Robin's assistant")
    with daemon(paddock) as started:
        yield Office(started, key)


def at_every_size(ordinary: int) -> Callable[[Any], Any]:
    """The decorator of a task: the width that the ordinary run has it at."""
    assert ordinary in SIZES
    widths = [width if width == ordinary else pytest.param(width, marks=pytest.mark.slow) for width in SIZES]
    return pytest.mark.parametrize("width", widths)


@contextmanager
def at_home(browser: Browser, office: Office, width: int) -> Generator[Page, None, None]:
    """The operator's Home in a window of this width. Where the task ends, nothing is wider than the window."""
    with visiting(browser, office.served, "operator", viewport={"width": width, "height": 900}) as page:
        yield page
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def find(page: Page, typed: str, title: str) -> None:
    """Open what the search of every page finds first."""
    page.keyboard.press("Control+k")
    page.keyboard.type(typed)
    expect(page.get_by_role("dialog").get_by_role("link").first).to_contain_text(title)
    page.keyboard.press("Enter")


@at_every_size(ordinary=390)
def test_a_plugin_with_two_dangerous_permissions_is_installed(
    browser: Browser, office: Office, tmp_path: Path, width: int
) -> None:
    name = f"courier-{width}"
    source = native(tmp_path / "courier", name, capabilities=["net:api.example.com:443", "net:*"])
    listed = office.served.paddock.listed
    with at_home(browser, office, width) as page:
        press(page, page.get_by_role("navigation", name="Places").get_by_role("link", name="Plugins"))
        press(page, page.get_by_role("button", name="Install a plugin"))
        type_into(page, page.get_by_label("Source", exact=True), str(source))
        press(page, page.get_by_role("button", name="Fetch"))

        boxes = page.get_by_role("group", name="2 dangerous permissions").get_by_role("checkbox")
        agree = page.get_by_role("button", name=re.compile("^Install with 2 dangerous"))
        press(page, boxes.first, "Space")
        press(page, agree)
        expect(boxes.last).to_be_focused()  # where the browser says that it has to be ticked
        assert name not in listed()
        expect(agree).to_be_in_viewport()  # it stays in reach
        page.keyboard.press("Space")
        press(page, agree)

        expect(page.get_by_role("status").first).to_contain_text("Installed")
        assert listed()[name]["version"] == "1.0.0"


@pytest.mark.req("S-37", "form from the schema")
@at_every_size(ordinary=1440)
def test_a_tool_is_found_and_run(browser: Browser, office: Office, width: int) -> None:
    with at_home(browser, office, width) as page:
        find(page, "desk say", "desk.say")
        run = page.locator("main form").get_by_role("button", name=re.compile("^Run"))
        expect(run).to_be_in_viewport()  # at the lower edge of a phone
        type_into(page, page.get_by_label("Text"), f"at {width}")
        press(page, run)
        expect(page.get_by_label("Result as JSON")).to_contain_text(f'"said": "at {width}"')


@pytest.mark.req("B-18", "inbox")
@at_every_size(ordinary=768)
def test_an_edited_request_is_answered_and_its_result_seen(browser: Browser, office: Office, width: int) -> None:
    first = office.made("send", text="bob\u200b")["approval"]["approval"]
    with at_home(browser, office, width) as page:
        press(page, page.get_by_role("navigation", name="Places").get_by_role("link", name="Inbox"))
        row = page.locator(f"#item-{first}")
        expect(row).to_contain_text("Robin's assistant")
        expect(row).to_contain_text("Leaves this machine")
        press(page, row.locator("summary"))
        expect(row).to_contain_text("U+200B")  # the exact input, with what does not show
        press(page, row.get_by_role("button", name="Open"))

        expect(page.get_by_role("heading", level=1)).to_contain_text("wants to run send")
        expect(page.locator(".danger-banner")).to_have_text(re.compile("Leaves this machine · Cannot be undone"))
        press(page, page.locator("summary", has_text="Edit"))
        type_into(page, page.get_by_role("textbox", name=re.compile("^Text")), f"bob and eve at {width}")
        press(page, page.get_by_role("button", name="Approve"))
        expect(page.locator("del")).to_contain_text("U+200B")
        expect(page.locator("ins")).to_contain_text("bob and eve")
        assert office.served.ask("GET", f"/approvals/{first}").body["state"] == "pending"  # nothing was approved yet
        press(page, page.get_by_role("button", name="Approve the edited version"))

        expect(page.locator("#outcome")).to_contain_text("Succeeded")  # without loading the page again
        expect(page.locator("#outcome")).to_contain_text(f"bob and eve at {width}")
        expect(page.locator("del")).to_contain_text("bob")  # afterwards the record shows who edited what
        expect(page.get_by_text("Edited before it was approved")).to_be_visible()
        expect(page.get_by_role("button", name="Approve")).to_have_count(0)
        press(page, page.get_by_role("link", name="See its result"))
        expect(page.get_by_label("Result as JSON")).to_contain_text(f'"sent": "bob and eve at {width}"')
    assert office.served.ask("GET", f"/approvals/{first}").body["state"] == "voided"


@pytest.mark.req("B-18", "page of a call")
@at_every_size(ordinary=390)
def test_the_code_rule_and_log_of_a_failed_call_are_at_most_three_clicks_from_home(
    browser: Browser, office: Office, width: int
) -> None:
    failed = office.made("fail")["instance"].rpartition("/")[2]
    for keyboard in (False, True):
        with at_home(browser, office, width) as page:
            page.add_init_script(COUNTED)
            page.goto("/")
            link = page.locator("#recent").get_by_role("link", name=re.compile("desk.fail")).first
            if keyboard:
                press(page, link)
            else:
                link.click()

            expect(page).to_have_url(re.compile(failed))
            for section, holds in {"error": "plugin_error", "decision": "members-may-call", "log": "no drawer"}.items():
                expect(page.locator(f"#call-{section}")).to_contain_text(holds)
                expect(page.locator(f"#call-{section}")).to_be_visible()
            assert 1 <= int(page.evaluate("sessionStorage.clicks")) <= 3


@pytest.mark.req("G-37", "plugin settings")
@at_every_size(ordinary=768)
def test_a_knob_is_turned(browser: Browser, office: Office, width: int) -> None:
    turns = 4 + SIZES.index(width)
    with at_home(browser, office, width) as page:
        find(page, "desk", "desk")
        press(page, page.get_by_role("link", name="Settings", exact=True))
        save = page.get_by_role("button", name=re.compile("^Save"))
        expect(save).to_be_in_viewport()  # at the lower edge of a phone
        slider = page.get_by_label("Turns", exact=True)
        now = int(slider.input_value())
        tab_to(page, slider)
        for _ in range(abs(turns - now)):
            page.keyboard.press("ArrowRight" if turns > now else "ArrowLeft")
        press(page, save)
        expect(page.get_by_role("status").first).to_contain_text("Saved")
        assert office.made("tell")["result"]["config"]["turns"] == turns


@at_every_size(ordinary=1440)
def test_a_log_is_followed_paused_and_followed_again(browser: Browser, office: Office, width: int) -> None:
    office.made("say", text=f"before a screen of {width}")
    with at_home(browser, office, width) as page:
        find(page, "desk", "desk")
        press(page, page.get_by_role("navigation", name="Pages of desk").get_by_role("link", name="Log"))
        expect(page.get_by_role("log")).to_contain_text(f"before a screen of {width}")
        expect(page.get_by_text("Following.")).to_be_visible()
        office.made("say", text=f"on a screen of {width}")
        expect(page.get_by_text(f"on a screen of {width}")).to_be_in_viewport()
        assert page.get_by_role("log").inner_text().count(f"before a screen of {width}") == 1

        press(page, page.get_by_role("button", name="Pause"))
        office.made("say", text=f"while {width} is paused")
        expect(page.get_by_text("Paused. 1 new.")).to_be_visible()
        assert f"while {width} is paused" not in page.get_by_role("log").inner_text()
        page.keyboard.press("Enter")  # the focus is there still
        expect(page.get_by_text(f"while {width} is paused")).to_be_in_viewport()


@pytest.mark.slow
def test_without_scripts_a_request_is_edited_a_rule_saved_and_a_person_put_into_a_group(
    browser: Browser, office: Office
) -> None:
    first = office.made("send", text="bob")["approval"]["approval"]
    with visiting(browser, office.served, "operator", java_script_enabled=False) as page:
        page.goto(f"/approvals/{first}")
        page.locator("summary", has_text="Edit").click()
        page.get_by_role("textbox", name=re.compile("^Text")).fill("eve")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("del")).to_contain_text("bob")
        expect(page.locator("ins")).to_contain_text("eve")
        assert office.served.ask("GET", f"/approvals/{first}").body["state"] == "pending"
        page.get_by_role("button", name="Approve the edited version").click()
        expect(page.get_by_role("status").first).to_contain_text("Approved")
        page.get_by_role("link", name=re.compile("See its result|Follow the call")).click()
        expect(page.get_by_role("heading", name="desk.send")).to_be_visible()

        page.goto("/policy")
        page.get_by_role("button", name="Add a rule file").click()
        page.get_by_label("Name").fill("silence")
        page.get_by_label("Rules, in Cedar").fill(SILENCE)
        page.get_by_role("button", name="Save").click()
        expect(page.get_by_role("alert")).to_contain_text("Not saved yet")
        assert office.served.ask("GET", "/policy/files/silence.cedar").status == 404
        page.get_by_role("button", name="Save anyway").click()
        assert office.served.ask("GET", "/policy/files/silence.cedar").body["text"] == SILENCE

        page.goto("/settings/people")
        page.get_by_label("Name", exact=False).first.fill("bea")
        page.get_by_label("Full name").fill("Bea Berg")
        page.get_by_role("button", name="Add person").click()
        expect(page.get_by_role("heading", name="Bea Berg")).to_be_visible()
        page.goto("/settings/groups")
        page.get_by_label("Name", exact=False).first.fill("night-shift")
        page.get_by_role("button", name="Add group").click()
        page.get_by_label("Add a person").select_option("bea")
        page.get_by_role("button", name="Add to the group").click()
        expect(page.get_by_role("link", name="Bea Berg")).to_be_visible()
    assert office.served.ask("GET", "/people/bea").body["groups"] == ["night-shift"]
