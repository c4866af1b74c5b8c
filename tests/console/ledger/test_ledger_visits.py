"""Ledger, calls and home as people meet them: a real daemon, caged plugins, and a browser where one is needed."""

from __future__ import annotations

import http.client
import json
import re
import sqlite3
from collections.abc import Generator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from fixtures.accessibility import violations
from fixtures.butler import butler
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, LocalConnection, daemon, eventually
from fixtures.ledger_rows import of_tenant
from fixtures.parrot import parrot
from fixtures.visitors import holds, needs_a_browser, visiting

NOTES = Path(__file__).parents[3] / "examples" / "shu-notes"
FOCUSED = "document.activeElement && document.activeElement.getAttribute('href')"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("ledger")
    paddock = Paddock(folder / "home")
    for source in (parrot(folder / "parrot"), butler(folder / "butler"), NOTES):
        paddock.quickly("plugin", "install", source, "--yes")
    for name in ("parrot", "butler", "shu_notes"):
        paddock.quickly("plugin", "enable", name, "--no-start")
    paddock.quickly("tenant", "add", "acme")
    for options in (("ann",), ("eve", "--tenant", "acme")):
        paddock.quickly("user", "add", *options)
    # Before the daemon: made by hosts that it knows nothing of.
    paddock("call", "parrot.say", "-p", '{"text": "long ago"}', "--as", "user:ann")
    with daemon(paddock) as started:
        yield started


def call(served: Daemon, name: str, **params: Any) -> dict[str, Any]:
    plugin, _, tool = name.partition(".")
    body: dict[str, Any] = served.ask("POST", f"/plugins/{plugin}/call/{tool}", params).body
    return body


def made(served: Daemon, name: str, **params: Any) -> str:
    """The id of a call that is over, whatever became of it."""
    told = call(served, name, **params)
    return str(told.get("call_id") or told["instance"].rpartition("/")[2])


def shown(served: Daemon, path: str, method: str = "GET", status: int = 200) -> str:
    """A page without a browser, for the operator at this machine."""
    answer = served.ask(method, f"/{path}", accept="text/html")
    assert answer.status == status, answer.body
    return str(answer.body)


def download(served: Daemon, path: str) -> tuple[dict[str, str], str]:
    connection: http.client.HTTPConnection = LocalConnection(served.socket)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        return {name.lower(): value for name, value in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def links(text: str) -> list[str]:
    return re.findall(r'<li id="entry-(\d+)"', text)


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_what_went_wrong_is_one_click_away_and_pages_keep_their_filters(served: Daemon) -> None:
    failed = made(served, "parrot.say")  # without what it needs
    for number in range(60):
        call(served, "parrot.say", text=str(number))

    everything, wrong = shown(served, "/ledger"), shown(served, "/ledger?wrong=1")
    assert 'href="/ledger?wrong=1"' in everything
    assert f"/calls/{failed}" in wrong
    assert "it worked" not in wrong

    first = shown(served, "/ledger?type=calls&plugin=parrot")
    (older,) = re.findall(r'rel="next" href="([^"]+)"', first)
    assert "type=calls&amp;plugin=parrot&amp;before=" in older
    second = shown(served, older.replace("&amp;", "&"))
    (newer,) = re.findall(r'rel="prev" href="([^"]+)"', second)
    assert links(shown(served, newer.replace("&amp;", "&"))) == links(first)
    assert not set(links(first)) & set(links(second))
    assert len(links(first)) == 50


def test_a_filter_that_is_no_time_comes_back_with_what_was_typed(served: Daemon) -> None:
    text = shown(served, "/ledger?since=soon&plugin=parrot", status=422)

    assert 'role="alert"' in text
    assert 'value="soon"' in text
    assert 'value="parrot"' in text


def test_any_id_leads_to_what_it_names(served: Daemon) -> None:
    waits = call(served, "shu_notes.add_note", text="oats")
    request = waits["approval"]["approval"]

    assert served.ask("GET", f"//ledger?id={request}", accept="text/html").headers["location"] == f"/ledger/{request}"
    found = served.ask("GET", f"//ledger/{request}", accept="text/html")
    assert (found.status, found.headers["location"]) == (303, f"/calls/{waits['call_id']}")
    for place in (f"/ledger/{waits['call_id']}", f"/explain/{waits['call_id']}", f"/explain/{request}"):
        led = served.ask("GET", f"/{place}", accept="text/html")
        assert (led.status, led.headers["location"].partition("#")[0]) == (303, f"/calls/{waits['call_id']}")
    page = shown(served, f"/calls/{waits['call_id']}")
    assert "Waiting for approval" in page
    assert "plugin-wants-a-yes" in page  # the rule that decided
    (entry,) = set(re.findall(r"/ledger/(evt_\w+)", page.partition("wants to call")[0].rpartition("<li")[2]))
    assert f'href="/calls/{waits["call_id"]}"' in shown(served, f"/ledger/{entry}")  # from one entry to all of its call
    assert "Nothing is recorded under that id" in shown(served, "/ledger/call_nobody", status=404)


def test_filtered_entries_are_taken_away_as_lines_and_as_a_table(served: Daemon) -> None:
    made(served, "parrot.say", text="x")
    headers, lines = download(served, "/ledger/export.jsonl?type=plugin.installed")
    entries = [json.loads(line) for line in lines.splitlines()]

    assert "attachment" in headers["content-disposition"]
    assert [entry["facts"]["name"] for entry in entries] == ["parrot", "butler", "shu_notes"]
    assert all(entry["hash"] for entry in entries)
    _, table = download(served, "/ledger/export.csv?type=plugin.installed")
    assert table.splitlines()[0].startswith("number,at,type,what happened")
    assert len(table.splitlines()) == 4
    _, whole = download(served, "/ledger/export.jsonl")
    numbers = [json.loads(line)["seq"] for line in whole.splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))
    refused = served.ask("GET", "//ledger/export.csv?since=soon", accept="text/html")
    assert (refused.status, "such as 2030-01-31T08:00" in str(refused.body)) == (400, True)


def test_a_chain_that_somebody_changed_is_found_and_only_its_own_tenant_is_told(served: Daemon) -> None:
    def verdict(tenant: str) -> str:
        where = f"/ledger/verify?tenant={tenant}"
        assert served.ask("POST", f"/{where}", b"").status == 303
        eventually(lambda: "verified this" in shown(served, where), "it never ended")
        return shown(served, where)

    assert "Nothing was changed" in verdict("acme")
    with sqlite3.connect(served.paddock.home / "data" / "paddock.db", isolation_level=None) as raw:
        raw.execute(f"UPDATE ledger SET plugin = 'other' WHERE {of_tenant('acme')} AND seq = 1")
        (entry,) = raw.execute(f"SELECT id FROM ledger WHERE {of_tenant('acme')} AND seq = 1").fetchone()
    raw.close()

    told = verdict("acme")
    assert "The ledger was tampered with" in told
    assert "Entry 1:" in told
    assert entry in told
    assert "was changed after it was written" in shown(served, f"/ledger/{entry}?tenant=acme")
    assert "Nothing was changed" in verdict("default")


@pytest.mark.slow
@needs_a_browser
def test_new_entries_appear_on_top_while_somebody_follows_and_their_place_is_kept(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/ledger")
        page.get_by_role("button", name="Follow live").click()
        entries = page.get_by_role("list", name="Entries, newest first").get_by_role("listitem")
        place = entries.first.get_by_role("link")
        place.focus()
        focused = page.evaluate(FOCUSED)

        known = made(served, "parrot.say", text="look here")
        expect(entries.first.get_by_role("link")).to_have_attribute("href", f"/calls/{known}")

        assert page.evaluate(FOCUSED) == focused
        assert entries.count() <= 50


@needs_a_browser
def test_one_call_is_read_from_end_to_end(browser: Browser, served: Daemon) -> None:
    waits = call(served, "shu_notes.add_note", text="hay")
    served.ask("POST", f"/approvals/{waits['approval']['approval']}/approve", {})
    eventually(lambda: served.ask("GET", f"/calls/{waits['call_id']}").body["status"] == "succeeded", "it never ended")
    with visiting(browser, served, "operator", timezone_id="Asia/Kathmandu") as page:
        page.goto("/ledger?since=2030-01-31T08:00")
        page.get_by_text("All filters").click()
        expect(page.get_by_label("Since (your time)")).to_have_value("2030-01-31T13:45")
        page.get_by_label("Until (your time)").fill("2030-02-01T05:45")
        page.get_by_role("button", name="Filter", exact=True).click()
        expect(page).to_have_url(re.compile(r"since=2030-01-31T08%3A00&until=2030-02-01T00%3A00"))
        expect(page.get_by_role("link", name="Until 2030-02-01T00:00 UTC: remove this filter")).to_contain_text("5:45")

        page.goto(f"/ledger/{waits['call_id']}")
        expect(page.get_by_role("heading", name="shu_notes.add_note")).to_be_visible()
        for moment in page.locator("#call-timeline time, #call-log time").all():
            at = datetime.fromisoformat(str(moment.get_attribute("datetime"))) + timedelta(hours=5, minutes=45)
            assert moment.inner_text() == f"{at:%H:%M:%S}"
        expect(page.get_by_text("Its author requires approval by a person").first).to_be_visible()
        assert page.locator("svg.lane rect.bar.waited").first.bounding_box() is not None

        page.get_by_role("link", name=re.compile("it worked")).click()

        expect(page.get_by_text("Place in the chain")).to_be_visible()
        recorded = page.locator("dl.facts time").first
        at = datetime.fromisoformat(str(recorded.get_attribute("datetime"))) + timedelta(hours=5, minutes=45)
        expect(recorded).to_contain_text(f"{at:%M:%S}")
        expect(page.get_by_label(re.compile("Facts of entry"))).to_contain_text('"status": "succeeded"')


# --- calls ------------------------------------------------------------------------------------------------------------


def test_a_call_of_an_earlier_host_has_its_page_from_what_was_recorded_of_it(served: Daemon) -> None:
    lines = download(served, "/ledger/export.jsonl?type=call.ended&principal=user:ann")[1].splitlines()
    former = json.loads(lines[0])["call"]

    page = shown(served, f"/calls/{former}")
    assert "The result is no longer kept" in page
    assert "long ago" in page  # its inputs
    assert "There is nothing here" in shown(served, "/calls/call_nobody", status=404)


@needs_a_browser
def test_a_member_sees_their_own_former_call_and_not_that_of_another(browser: Browser, served: Daemon) -> None:
    lines = download(served, "/ledger/export.jsonl?type=call.ended&principal=user:ann")[1].splitlines()
    theirs, others = json.loads(lines[0])["call"], made(served, "parrot.say", text="mine")
    with visiting(browser, served, "ann") as page:
        page.goto(f"/calls/{theirs}")
        expect(page.get_by_role("heading", name="parrot.say")).to_be_visible()
        expect(page.get_by_role("heading", name="Log")).to_have_count(0)
        answer = page.goto(f"/calls/{others}")
        assert answer is not None
        assert answer.status == 404
        expect(page.get_by_text("Everything that happened")).to_have_count(0)


def _tell_when_closed(page: Page) -> None:
    page.add_init_script(
        "document.addEventListener('htmx:sse:close', (event) => { window.ended = event.detail.reason; })"
    )


@needs_a_browser
def test_a_call_is_followed_to_its_end_and_the_browser_does_not_come_back(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        _tell_when_closed(page)
        going = served.ask("POST", "/plugins/parrot/call/wait", {}, prefer="respond-async").body["call_id"]
        page.goto(f"/calls/{going}")
        expect(page.locator("#call-head").get_by_text("Running")).to_be_visible()
        expect(page.get_by_role("progressbar", name="Progress")).to_be_visible()

        served.ask("POST", f"/calls/{going}/cancel")

        expect(page.locator("#call-head").get_by_text("Cancelled")).to_be_visible()  # without loading the page again
        holds(page, "window.ended === 'ended'")


@needs_a_browser
def test_a_question_is_a_form_whose_mistakes_stay_while_the_call_goes_on(browser: Browser, served: Daemon) -> None:
    asked = served.ask("POST", "/plugins/butler/call/paint", {}, prefer="respond-async").body["call_id"]
    eventually(lambda: bool(served.ask("GET", f"/calls/{asked}").body["questions"]), "it never asked")
    with visiting(browser, served, "operator") as page:
        page.goto(f"/calls/{asked}")
        page.get_by_label("Coats").fill("0")
        page.get_by_role("button", name="Answer").click()
        expect(page.get_by_role("alert")).to_contain_text("mistake")
        expect(page.get_by_label("Coats")).to_have_value("0")

        page.get_by_label("Colour").select_option("red")
        page.get_by_label("Coats").fill("3")
        page.get_by_role("button", name="Answer").click()

        expect(page.locator("#call-head").get_by_text("Succeeded")).to_be_visible()
        expect(page.get_by_label("Result as JSON")).to_contain_text("red")


# --- home -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@needs_a_browser
def test_home_tells_what_waits_as_it_comes_and_never_takes_the_keyboard_away(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.get_by_text(re.compile("healthy plugin")).click()
        page.get_by_role("link", name="parrot", exact=True).focus()
        known = call(served, "shu_notes.add_note", text="straw")["approval"]["approval"]

        review = page.locator(f"#waiting-{known}").get_by_role("button", name=re.compile("Review"))
        expect(review).to_be_visible()
        assert page.evaluate(FOCUSED) == "/plugins/parrot"

        review.click()
        expect(page).to_have_url(re.compile(known))


@pytest.mark.slow
@needs_a_browser
def test_home_is_followed_although_its_script_comes_late_and_its_first_requests_fail(
    browser: Browser, served: Daemon
) -> None:
    with visiting(browser, served, "operator") as page:
        late: list[Route] = []
        refusals: list[str] = []

        def refuse(route: Route) -> None:
            if len(refusals) == 2:
                route.continue_()
                return
            refusals.append(route.request.url)
            if len(refusals) == 1:
                route.abort("connectionreset")
            else:
                route.fulfill(status=503, content_type="text/html", body="<p>Not now</p>")

        page.route("**/hx-sse-*.js*", lambda route: late.append(route))
        page.route("**/home/live", refuse)
        page.goto("/", wait_until="commit")
        holds(page, "Boolean(window.htmx)")
        # htmx has had its turn to read the page by then, if it did not wait for the rest.
        page.evaluate("new Promise((done) => setTimeout(() => setTimeout(done)))")
        eventually(lambda: page.evaluate("true") and bool(late), "the page asks for its extension")
        late.pop().continue_()
        known = call(served, "shu_notes.add_note", text="chaff")["approval"]["approval"]

        expect(page.locator(f"#waiting-{known}")).to_be_visible()
        assert len(refusals) == 2
        expect(page.get_by_text("Not now")).to_have_count(0)


@needs_a_browser
def test_the_first_start_leads_to_a_first_plugin(browser: Browser, tmp_path: Path) -> None:
    with daemon(Paddock(tmp_path / "home")) as fresh, visiting(browser, fresh, "operator") as page:
        expect(page.get_by_role("heading", name="Welcome to Paddock")).to_be_visible()
        expect(page.get_by_role("button", name="Install a plugin")).to_have_attribute("href", "/install")
        page.goto("/ledger?wrong=1")
        expect(page.get_by_text("Nothing went wrong.")).to_be_visible()


@needs_a_browser
@pytest.mark.slow
def test_these_pages_are_there_for_people_who_do_not_see_them_and_on_a_phone(browser: Browser, served: Daemon) -> None:
    failed, waits = made(served, "parrot.die"), call(served, "shu_notes.add_note", text="x")["call_id"]
    small = {"width": 375, "height": 800}
    with visiting(browser, served, "operator", viewport=small, bypass_csp=True) as page:
        found: list[str] = []

        def look(*places: str) -> None:
            for place in places:
                page.goto(place)
                for closed in page.locator("main summary").all():
                    closed.click()
                found.extend(violations(page))
                if page.evaluate("document.documentElement.scrollWidth") > small["width"]:
                    found.append(f"{place}: is wider than a phone")

        look("/", "/ledger?since=soon", "/ledger?wrong=1&live=1", "/ledger/verify", "/ledger/nobody")
        look("/ledger?wrong=1", f"/calls/{failed}", f"/calls/{waits}", f"/ledger/{waits}")
        assert found == []
