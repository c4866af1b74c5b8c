"""The badge of the inbox: the number of things that need a person, on every page and live."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.page_clients import signed_in
from fixtures.prepared_homes import enabled_parrot, prepare_home
from fixtures.visitors import needs_a_browser, visiting

RULES = """
@id("parrots-are-asked-about")
@text("A person hears the parrot first.")
@approval("action")
forbid (principal, action == Action::"callUnattended", resource == Callable::"parrot.say");
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("badge")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("user", "add", "ann")
    policies = paddock.home / "policies"
    policies.mkdir(mode=0o700, exist_ok=True)
    (policies / "ours.cedar").write_text(RULES)
    with daemon(paddock) as started:
        yield started


def ask(served: Daemon) -> None:
    answer = served.ask("POST", "/calls", {"name": "parrot.say", "params": {"text": "hello"}})
    assert answer.body["call_id"]


@needs_a_browser
def test_every_open_page_counts_what_needs_its_reader_without_being_loaded_again(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page, visiting(browser, served, "ann") as ann:
        shown = page.locator("#inbox-badge .badge").all_inner_texts()
        before = int(shown[0]) if shown else 0  # a machine may have problems of its own
        page.goto("/plugins")
        ann.goto("/plugins")

        ask(served)

        expect(page.get_by_role("link", name=f"Inbox {before + 1} waiting")).to_be_visible()
        ask(served)
        expect(page.get_by_role("link", name=f"Inbox {before + 2} waiting")).to_be_visible()
        assert f">{before + 2}</span>" in signed_in(served, "operator").get("/settings").text

        for one in served.paddock("approval", "list", "--json").json["approvals"]:
            served.paddock("approval", "deny", one["id"], "--yes")
        expect(page.locator("#inbox-badge .badge")).to_have_text(shown)
        expect(ann.locator("#inbox-badge .badge")).to_have_count(0)


def test_a_page_of_another_person_does_not_count_what_they_may_not_answer(served: Daemon) -> None:
    operator = signed_in(served, "operator")
    ask(served)
    eventually(lambda: 'class="badge"' in operator.get("/plugins").text, "the request counts for the operator")
    assert 'class="badge"' not in signed_in(served, "ann").get("/plugins").text
