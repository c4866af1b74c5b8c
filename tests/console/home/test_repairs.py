"""Repairs and calls of unknown outcome as people see them: broken for real, mended by a button, gone by themselves."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file
from fixtures.visitors import needs_a_browser, visiting

pytestmark = needs_a_browser

PROGRAM = """
import os
from paddock_sdk import Plugin
plugin = Plugin("{name}", "1.0.0")
@plugin.tool
def send(params, context):
    if "{name}" == "fragile":
        os._exit(1)  # killed midway: nobody knows what became of it
    return {{"sent": params}}
plugin.run()
"""


def package(root: Path, name: str) -> Path:
    tool = {"name": "send", "description": "Send it", "effects": ["db_write"], "input_schema": {"type": "object"}}
    native(root, name, runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=[tool])
    write_file(root / "main.py", PROGRAM.format(name=name))
    return root


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("repairs")
    paddock = Paddock(folder / "home")
    for name in ("fragile", "sturdy"):
        paddock.quickly("plugin", "install", package(folder / name, name), "--yes")
        paddock.quickly("plugin", "enable", name, "--no-start")
    paddock.quickly("user", "add", "ann")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    with daemon(paddock) as started:
        yield started


def change_files(served: Daemon, words: str) -> None:
    """Change what was installed, as somebody with a shell could."""
    file = served.paddock.trees / "sturdy" / "1.0.0" / "main.py"
    file.chmod(0o644)
    file.write_text(file.read_text() + f"\n# {words}\n")


def repair(page: Page, title: str) -> Locator:
    return page.locator("main li.card").filter(has=page.get_by_role("heading", name=title))


def a_doubt(page: Page) -> str:
    """A call of unknown outcome: the one that there is, or a new one; whoever dies too often is given up."""
    page.goto("/unknown-outcomes")
    known = page.get_by_role("link", name="fragile · send")
    if known.count():
        return str(known.first.get_attribute("href")).rpartition("/")[2]
    page.goto("/plugins/fragile/run/send?raw")
    page.get_by_label("Parameters, as JSON").fill('{"text": "oats\u200b and \u202eyah"}')
    page.get_by_role("button", name="Run it").click()
    page.wait_for_url("**/calls/*")
    expect(page.get_by_text("Outcome unknown").first).to_be_visible()
    return page.url.rpartition("/")[2]


CHANGED = "The files of sturdy were modified"


def test_changed_files_are_restored_with_a_button_and_the_repair_is_gone(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/repairs")
        expect(page.get_by_role("heading", name="Nothing needs repair")).to_be_visible()

        change_files(served, "worse")
        page.goto("/inbox")
        row = page.locator("li", has_text=CHANGED)
        expect(row).to_contain_text("Repair · broken")
        expect(row.locator("time")).to_have_text(re.compile("ago$"))  # how old it is
        page.goto("/plugins/sturdy")
        page.get_by_role("button", name="Restore its files").click()
        expect(repair(page, CHANGED)).to_contain_text("are not the ones that were consented to")
        repair(page, CHANGED).get_by_role("button", name="Restore its files").click()

        expect(page.get_by_role("status")).to_have_text("Fixed. It is gone from the list.")
        expect(page.get_by_role("heading", name="Nothing needs repair")).to_be_visible()
        page.goto("/plugins/sturdy/run/send?raw")
        page.get_by_role("button", name="Run it").click()
        expect(page.locator("#call-head").get_by_text("Succeeded")).to_be_visible()
        told = served.paddock.quickly("ledger", "tail", "--type", "plugin.repaired", "--json").out
        assert '"sturdy"' in told


@pytest.mark.slow
def test_what_is_ignored_stays_away_until_its_cause_changes(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        change_files(served, "odd")
        page.goto("/repairs")
        repair(page, CHANGED).get_by_role("button", name="Ignore").click()
        expect(page.get_by_role("status")).to_contain_text("Ignored")
        expect(page.get_by_role("heading", name="Nothing needs repair")).to_be_visible()
        page.get_by_text("1 problem ignored").click()
        expect(page.get_by_text(re.compile(".* ignored this"))).to_be_visible()
        page.get_by_role("button", name="Stop ignoring").click()
        expect(repair(page, CHANGED)).to_be_visible()

        repair(page, CHANGED).get_by_role("button", name="Ignore").click()
        change_files(served, "odder")
        page.goto("/repairs")
        expect(repair(page, CHANGED).get_by_role("button", name="Restore its files")).to_be_visible()

        served.paddock.quickly("plugin", "repair", "sturdy")  # where somebody else mends it, it is gone here too
        page.reload()
        expect(page.get_by_role("heading", name="Nothing needs repair")).to_be_visible()
        expect(page.get_by_text("ignored")).to_have_count(0)


def test_a_call_whose_operator_was_killed_midway_is_settled_by_who_looked(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.on("dialog", lambda dialog: dialog.accept())
        call = a_doubt(page)
        page.goto("/repairs")
        repair(page, "1 call has an unknown outcome").get_by_role("button", name="Look and settle").click()
        page.get_by_role("link", name="fragile · send").click()
        expect(page.get_by_label("The parameters")).to_contain_text("U+200B")
        expect(page.get_by_label("The parameters")).to_contain_text("U+202E")

        page.get_by_label("How do you know?").fill("I looked into the mailbox")
        page.get_by_role("button", name="Settle it").click()
        expect(page.get_by_role("alert")).to_contain_text("2 mistakes")
        expect(page.get_by_label("How do you know?")).to_have_value("I looked into the mailbox")
        page.get_by_label("It did not happen").check()
        page.get_by_label("I looked, and I am sure").check()
        page.get_by_role("button", name="Settle it").click()

        expect(page.get_by_role("heading", name="It did not happen")).to_be_visible()
        page.get_by_role("link", name="The page of the call").click()
        expect(page.get_by_role("main")).to_contain_text(re.compile("says that .* did not happen"))
        told = served.paddock.quickly("ledger", "tail", "--type", "effect.resolved", "--json").out
        assert call in told
        assert "I looked into the mailbox" in told
        page.goto("/repairs")
        expect(repair(page, "1 call has an unknown outcome")).to_have_count(0)
        page.goto("/unknown-outcomes?resolved")
        expect(page.get_by_text("It did not happen")).to_be_visible()


def test_members_and_other_tenants_see_and_change_nothing_of_it(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        call = a_doubt(page)
    change_files(served, "worst")
    with visiting(browser, served, "ann") as page:
        for place in ("/repairs", "/unknown-outcomes", f"/unknown-outcomes/{call}"):
            answer = page.goto(place)
            assert answer is not None
            assert answer.status == 403, place
    with visiting(browser, served, "omar", "--tenant", "acme") as page:
        page.goto("/repairs")
        expect(page.get_by_role("heading", name="Nothing needs repair")).to_be_visible()
        page.goto("/unknown-outcomes")
        expect(page.get_by_text("fragile")).to_have_count(0)
        answer = page.goto(f"/unknown-outcomes/{call}")
        assert answer is not None
        assert answer.status == 404
        theirs: dict[str, str | float | bool] = {"repair": "plugin.modified:sturdy", "action": "restore"}
        for place in ("/repairs/fix", "/repairs/ignore"):
            own = {"origin": page.url.partition("/unknown-outcomes")[0]}
            tried = page.request.post(place, form=theirs, headers=own)
            assert tried.url.endswith("said=repair_gone"), place
    with visiting(browser, served, "operator") as page:
        page.goto("/repairs")
        expect(repair(page, CHANGED)).to_be_visible()


@pytest.mark.slow
def test_repairs_and_doubts_are_there_for_people_who_do_not_see_them(browser: Browser, served: Daemon) -> None:
    change_files(served, "for all to see")
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        call = a_doubt(page)
        found: list[str] = []
        for place in ("/repairs", "/unknown-outcomes", "/unknown-outcomes?resolved", f"/unknown-outcomes/{call}"):
            page.goto(place)
            found += violations(page)
        assert found == []
