"""The tour: its steps for every state of a visitor, and the whole of it as a newcomer takes it, in the demo."""

from __future__ import annotations

import re
from collections.abc import Generator

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, Page, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.demos import Demo, demo
from fixtures.page_clients import signed_in
from fixtures.visitors import needs_a_browser, opened, sign_in, visiting
from paddock.config.settings import Settings
from paddock.console.pages.home.tour_steps import (
    Tour,
    TourFacts,
    TourTargets,
    apply_entries,
    apply_viewed_call,
    build_steps,
    mark_plugin_read,
)
from paddock.ledger.entry import LedgerEntry

# --- which steps are done ---------------------------------------------------------------------------------------------


def entry(kind: str, plugin: str = "greeter", call: str | None = "call_1", **facts: object) -> LedgerEntry:
    return LedgerEntry("default", 1, "id", "2030-01-31", kind, plugin, call, None, dict(facts), {}, False, "")


def done_with(facts: TourFacts) -> list[int]:
    return [step.number for step in build_steps(facts, TourTargets()) if step.done]


DENIED = entry("call.ended", success=False, decision="deny")
ANSWERED = entry("approval.answered", call="call_7", approved=True)


def test_nobody_is_shown_around_unless_the_host_says_so() -> None:
    assert Settings().console.tour is False


@pytest.mark.parametrize(
    ("entries", "done"),
    [
        ([], []),
        ([entry("plugin.installed")], [1]),
        ([entry("call.ended", success=True, decision="allow")], [3]),
        ([entry("call.ended", success=False, decision="allow")], []),
        ([DENIED], [4]),
        ([ANSWERED], [5]),
        ([entry("session.opened"), entry("plugin.enabled"), entry("approval.requested")], []),
    ],
)
def test_what_somebody_did_ticks_its_step_off(entries: list[LedgerEntry], done: list[int]) -> None:
    assert done_with(apply_entries(TourFacts(), entries)) == done


def test_what_somebody_looked_at_ticks_its_step_off() -> None:
    assert done_with(mark_plugin_read(TourFacts())) == [2]
    assert done_with(apply_viewed_call(TourFacts(), "call_1", [DENIED])) == [4]
    answered = apply_entries(TourFacts(), [ANSWERED])
    assert done_with(apply_viewed_call(answered, "call_1", [])) == [5], "the story of another call is not theirs"
    assert done_with(apply_viewed_call(answered, "call_7", [])) == [5, 6]


def test_steps_lead_to_what_there_is_and_to_where_it_would_be() -> None:
    nothing = [step.where for step in build_steps(TourFacts(), TourTargets())]
    assert nothing == ["/install", "/plugins", "/plugins", "/ledger?wrong=1", "/approvals", "/ledger"]

    known = build_steps(TourFacts(installed="a/b", answered="call_7"), TourTargets("call_1", "apr_1", "Robin"))
    assert [step.where for step in known[1:]] == [
        "/plugins/a%2Fb", "/plugins/a%2Fb", "/calls/call_1", "/approvals/apr_1", "/calls/call_7",
    ]  # fmt: skip
    assert known[4].title == "Answer Robin’s request"
    assert build_steps(apply_viewed_call(TourFacts(), "call_2", [DENIED]), TourTargets())[3].where == "/calls/call_2"


def test_a_page_further_along_belongs_to_its_step() -> None:
    install, _, run, denied, *_ = build_steps(TourFacts(installed="greeter"), TourTargets())
    assert (
        install.covers_path("/install")
        and install.covers_path("/install/ins_1")
        and not install.covers_path("/installed")
    )
    assert run.covers_path("/plugins/greeter/run/greet") and not run.covers_path("/plugins/outbox")
    assert denied.covers_path("/ledger")


def test_a_step_that_is_done_on_this_page_leads_nowhere_else() -> None:
    todo = build_steps(TourFacts(), TourTargets())
    assert Tour(todo, path="/install/ins_1").leads_on is None
    assert Tour(todo, path="/plugins").leads_on == todo[0]


def test_the_next_step_is_the_first_that_is_left() -> None:
    all_done = TourFacts("greeter", read=True, ran=True, saw_denied=True, answered="call_7", followed=True)
    assert Tour(build_steps(all_done, TourTargets())).next is None
    assert Tour(build_steps(all_done, TourTargets())).done == 6
    left = Tour(build_steps(replace(all_done, ran=False), TourTargets())).next
    assert left is not None
    assert left.number == 3


# --- the demo, as a newcomer meets it ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Generator[Demo, None, None]:
    with demo(Paddock(tmp_path_factory.mktemp("tour") / "home")) as started:
        yield started


def ticked(page: Page) -> list[str]:
    """The titles of the steps that the first page says are done."""
    page.goto("/")
    items = page.get_by_role("region", name=re.compile("tour|seen it all")).get_by_role("listitem")
    done = items.filter(has=page.get_by_text("Done", exact=True))
    return [one.get_by_role("link").inner_text() for one in done.all()]


def hint(page: Page) -> str:
    return page.get_by_role("complementary", name="Tour").inner_text()


@pytest.mark.slow
@needs_a_browser
def test_a_newcomer_takes_the_whole_tour(browser: Browser, shown: Demo) -> None:
    with opened(browser, shown.base) as page:
        sign_in(page, shown.link)
        expect(page.get_by_role("heading", name="A tour in six steps")).to_be_visible()
        assert ticked(page) == [], "what happened before they came is not theirs"

        page.get_by_role("link", name="Install a plugin").click()
        assert "step 1 of 6" in hint(page)
        page.get_by_role("button", name="Look at greeter").click()
        expect(page.get_by_text("Nothing: no files, no network, no programs")).to_be_visible()
        page.get_by_role("button", name="Install", exact=True).click()
        expect(page.get_by_role("heading", name="What it may reach")).to_be_visible()
        assert ticked(page) == ["Install a plugin", "Read what it may do"]

        page.get_by_role("link", name="Run a tool").click()
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_text("Running", exact=True)).to_be_visible()
        page.get_by_role("link", name="greet", exact=True).click()
        page.get_by_label("Name").fill("Ann")
        page.get_by_role("button", name=re.compile("^Run")).click()
        expect(page.get_by_label("Result as JSON")).to_contain_text("Hello, Ann!")

        page.get_by_role("link", name="Next: See a denied call, and why").or_(
            page.get_by_role("link", name="Go there")
        ).click()
        expect(page.get_by_text("Letters are kept for seven years. The outbox is never emptied.").first).to_be_visible()
        assert "step 4 of 6" in hint(page)

        page.get_by_role("link", name="Next: Answer Robin’s request").click()
        expect(page.get_by_role("heading", name=re.compile("^Robin.* wants to run send"))).to_be_visible()
        expect(page.get_by_text("Ann, Hill Farm", exact=True)).to_be_visible()
        page.get_by_role("button", name="Approve").click()
        expect(page.get_by_role("status").first).to_contain_text("Approved")
        shown.seen("Thank you! The letter about the oats is done. Robin")

        page.get_by_role("link", name="Go there").click()
        expect(page.get_by_text("It sends something to the outside").first).to_be_visible()
        assert "step 6 of 6" in hint(page)
        assert len(ticked(page)) == 6
        expect(page.get_by_role("heading", name="You have seen it all")).to_be_visible()
        page.get_by_role("link", name="See a denied call, and why").click()  # it leads there still
        expect(page.get_by_role("heading", name="outbox.empty")).to_be_visible()
        expect(page.get_by_role("complementary", name="Tour")).to_have_count(0)  # it goes along to its end only

        page.goto("/plugins/outbox/run/letters")
        page.get_by_role("button", name=re.compile("^Run")).click()
        expect(page.get_by_label("Result as JSON")).to_contain_text("Oats for Friday")  # what was approved has happened


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    """A host that shows people around and has nothing else of the demo, which takes long to start."""
    paddock = Paddock(tmp_path_factory.mktemp("shown-around") / "home", more={"PADDOCK_CONSOLE_TOUR": "true"})
    paddock.quickly("user", "add", "robin")
    with daemon(paddock) as started:
        yield started


@needs_a_browser
def test_the_tour_is_put_away_and_back_without_scripts(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator", java_script_enabled=False) as page:
        page.get_by_role("button", name="Hide the tour").click()
        expect(page.get_by_role("status").first).to_have_text("The tour is hidden.")
        page.goto("/plugins")
        expect(page.get_by_role("complementary", name="Tour")).to_have_count(0)

        page.goto("/")
        page.get_by_role("button", name="Show the tour").click()
        expect(page.get_by_role("button", name="Hide the tour")).to_be_visible()


def test_robin_who_operates_nothing_is_not_shown_around(served: Daemon) -> None:
    assert "A tour in six steps" in signed_in(served, "operator").get("/").text
    robin = signed_in(served, "robin")
    assert "A tour in six steps" not in robin.get("/").text
    assert robin.send("/tour/hide").status == 403


@needs_a_browser
@pytest.mark.slow
def test_the_tour_is_there_for_people_who_do_not_see_it(browser: Browser, shown: Demo) -> None:
    with opened(browser, shown.base, bypass_csp=True) as page:
        sign_in(page, shown.paddock.quickly("login", "--json").json["url"])
        for place in ("/", "/plugins"):
            page.goto(place)
            assert violations(page) == []
