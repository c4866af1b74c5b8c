"""Home by exception: what needs the reader, the day in numbers, what runs and what is unwell, live."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.page_clients import signed_in
from fixtures.prepared_homes import enabled_parrot, prepare_home
from fixtures.visitors import needs_a_browser, visiting

EXAMPLES = "examples/memory-markdown"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("home-page")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("plugin", "install", request.config.rootpath / EXAMPLES, "--yes")
    paddock.quickly("plugin", "enable", "memory-markdown", "--no-start")
    paddock.quickly("user", "add", "ann", "--role", "member")
    with daemon(paddock) as started:
        yield started


@needs_a_browser
def test_home_shows_what_needs_the_reader_the_day_and_what_is_unwell_as_it_comes(
    browser: Browser, served: Daemon
) -> None:
    served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}})
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        expect(page.get_by_role("heading", name="All is well")).to_be_visible()
        day = page.get_by_role("region", name="Calls in the last 24 hours")
        expect(day.get_by_role("img", name=re.compile("1 calls? in the last 24 hours"))).to_be_visible()
        page.get_by_text("2 healthy plugins").click()
        expect(page.get_by_role("link", name="memory-markdown", exact=True)).to_be_visible()
        assert violations(page) == []

        waits = served.ask("POST", "/calls", {"name": "memory-markdown.retain", "params": {"content": "oats"}})
        assert waits.status == 202, waits.body
        expect(page.get_by_role("heading", name="1 thing needs you")).to_be_visible()
        need = page.locator("#needs li").first
        expect(need).to_contain_text("wants to run retain of memory-markdown")
        expect(need).to_contain_text("expires in")
        expect(page.get_by_role("link", name="Open inbox")).to_be_visible()
        assert violations(page) == []
        need.get_by_role("button", name="Review").click()
        expect(page).to_have_url(re.compile(r"/approvals/apr_"))

        (served.paddock.home / "data" / "plugins").is_dir()
        for file in (served.paddock.home / "data" / "plugins").rglob("paddock.yaml"):
            if "parrot" in file.read_text():
                file.chmod(0o644)
                file.write_text(file.read_text() + "\n# changed\n")
        page.goto("/")
        expect(page.locator("#unwell-parrot")).to_contain_text("its files were changed")
        page.locator("#unwell-parrot").get_by_role("button", name="Open the log of parrot").click()
        expect(page).to_have_url(re.compile("/plugins/parrot/logs"))
        page.goto("/")
        page.locator("#recent").get_by_role("link", name=re.compile("parrot.say")).click()
        expect(page).to_have_url(re.compile("/calls/call_"))


def test_a_member_sees_their_own_calls_and_no_numbers_of_the_tenant(served: Daemon) -> None:
    page = signed_in(served, "ann").get("/").text

    assert "last 24 hours" not in page
    assert "You have made no call yet" in page or "/calls/call_" not in page
    assert "Open the log" not in page
