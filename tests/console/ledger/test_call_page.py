"""The page of a call, and the list of calls, as people use them: from home to a failure, again with the same inputs."""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.page_clients import signed_in
from fixtures.people import key_of
from fixtures.prepared_homes import enabled_parrot, prepare_home
from fixtures.visitors import needs_a_browser, visiting

PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("calls")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    paddock.quickly("tenant", "add", "acme")
    for options in (("ann", "--name", "Ann Müller-Lind"), ("eve", "--tenant", "acme", "--role", "operator")):
        paddock.quickly("user", "add", *options)
    with daemon(paddock) as started:
        yield started


def made(served: Daemon, tool: str, **params: Any) -> str:
    """The id of a call that is over, whatever became of it."""
    body = served.ask("POST", f"/plugins/parrot/call/{tool}", params).body
    return str(body.get("call_id") or body["instance"].rpartition("/")[2])


def shown(served: Daemon, path: str, status: int = 200) -> str:
    answer = served.ask("GET", f"/{path}", accept="text/html")
    assert answer.status == status, answer.body
    return str(answer.body)


@needs_a_browser
@pytest.mark.req("B-18", "page of a call")
def test_the_page_of_a_failed_call_has_its_code_rule_and_the_lines_of_its_own_log(
    browser: Browser, served: Daemon
) -> None:
    failed, other = made(served, "burn"), made(served, "burn")
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        page.locator(f'a[href="/calls/{failed}"]').first.click()

        expect(page.locator("#call-error")).to_contain_text("plugin_error")
        expect(page.locator("#call-decision")).to_contain_text("operators-may-call")
        expect(page.locator("#call-log")).to_contain_text("KeyError")
        expect(page.locator("svg.axis text").first).to_be_attached()
        assert violations(page) == []
    # The lines of the other call, which failed alike, are not among them.
    lines = served.ask("GET", f"/calls/{failed}").body["log"]
    others = served.ask("GET", f"/calls/{other}").body["log"]
    assert lines
    assert not {line["line"] for line in lines} & {line["line"] for line in others}


@needs_a_browser
@pytest.mark.req("B-18", "page of a call")
def test_a_call_is_run_again_with_the_same_inputs_and_asks_again_for_the_secret_ones(
    browser: Browser, served: Daemon
) -> None:
    first, secret = made(served, "say", text="seven sacks"), made(served, "note", text="hay", api_key="s3cret")
    with visiting(browser, served, "operator") as page:
        page.goto(f"/calls/{first}")
        page.get_by_role("button", name="Run again").click()
        expect(page.get_by_label("Text")).to_have_value("seven sacks")
        page.get_by_role("button", name="Run it").last.click()

        expect(page.locator("#call-result")).to_contain_text("seven sacks")
        expect(page).not_to_have_url(re.compile(first))
        expect(page.locator("#call-by")).to_contain_text("from the console")

        page.goto(f"/calls/{secret}")
        expect(page.locator("#call-inputs")).to_contain_text("Left out as secret: api_key")
        expect(page.locator("main")).not_to_contain_text("s3cret")
        page.get_by_role("button", name="Run again").click()
        expect(page.get_by_text("Enter again: api_key")).to_be_visible()
        assert "s3cret" not in page.content()


@pytest.mark.slow
@needs_a_browser
def test_activity_lists_calls_live_and_one_click_narrows_them(browser: Browser, served: Daemon) -> None:
    good, bad = made(served, "say", text="x"), made(served, "burn")
    with visiting(browser, served, "operator", viewport=PHONE, bypass_csp=True) as page:
        page.goto("/activity")
        calls = page.get_by_role("list", name="Calls, newest first")
        expect(calls.get_by_role("listitem").first).to_have_attribute("id", bad)
        latest = made(served, "say", text="y")
        expect(calls.get_by_role("listitem").first).to_have_attribute("id", latest)  # without loading the page again
        assert violations(page) == []

        page.get_by_role("link", name="Failed", exact=True).click()
        expect(page.locator(f"#{bad}")).to_be_visible()
        expect(page.locator(f"#{good}")).to_have_count(0)
        page.locator(f"#{bad}").get_by_role("link", name="parrot", exact=True).click()
        expect(page.get_by_role("link", name=re.compile("Plugin parrot: remove"))).to_be_visible()

        page.keyboard.press("/")
        page.keyboard.type(good)
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="parrot.say")).to_be_visible()


def test_activity_is_paged_and_people_see_their_own_calls_alone(served: Daemon) -> None:
    for number in range(55):
        made(served, "say", text=str(number))
    told = served.ask("POST", "/plugins/parrot/call/say", {"text": "hers"}, paddock_as="user:ann").body
    hers = str(told.get("call_id") or told["instance"].rpartition("/")[2])
    listed = shown(served, "/activity")
    (older,) = re.findall(r'rel="next" href="([^"]+)"', listed)
    first, second = (set(re.findall(r'id="(call_\w+)"', page)) for page in (listed, shown(served, older)))
    assert len(first) == 50
    assert second
    assert not first & second
    assert ">p95<" in listed
    assert re.findall(r'id="(call_\w+)"', shown(served, "/activity?person=user:ann")) == [hers]
    named = 'title="user:ann">Ann Müller-Lind</span>'
    for path in ("/activity", "/", f"/calls/{hers}", "/plugins/parrot/calls", "/map"):
        assert named in shown(served, path), path
    for path in ("/ledger?principal=user:ann", "/plugins/parrot"):
        assert "Ann Müller-Lind" in shown(served, path), path
    told = served.ask("GET", "//activity", accept="text/html", paddock_as="user:ann")
    assert re.findall(r'id="(call_\w+)"', str(told.body)) == [hers]
    assert "Enter a day" in shown(served, "/activity?day=soon", status=422)


def test_the_page_of_a_call_is_not_there_for_another_tenant(served: Daemon) -> None:
    theirs = made(served, "say", text="ours")

    known, unknown = (served.ask("GET", f"/calls/{name}?tenant=acme") for name in (theirs, "call_nobody"))
    assert known.status == unknown.status == 404
    assert known.body["code"] == unknown.body["code"] == "call.not_found"
    shown(served, f"/calls/{theirs}?tenant=acme", status=404)


@pytest.mark.req("B-18", "page of a call")
def test_the_page_of_a_call_is_for_who_made_it_and_its_log_for_operators(served: Daemon) -> None:
    ann, key = signed_in(served, "ann"), {"authorization": f"Bearer {key_of(served.paddock, 'ann')}"}
    theirs = made(served, "note", text="ours")
    hers = served.ask_tcp("POST", "/plugins/parrot/call/note", {"text": "hers"}, **key).body["call_id"]

    assert served.ask_tcp("GET", f"/calls/{theirs}", **key).body["code"] == "call.not_found"
    record = served.ask_tcp("GET", f"/calls/{hers}", **key).body
    assert (record["inputs"], record["log"]) == ({"text": "hers"}, None)
    assert served.ask("GET", f"/calls/{hers}").body["log"]
    assert (ann.get(f"/calls/{theirs}").status, ann.get(f"/calls/{hers}").status) == (404, 200)
    assert ann.send(f"/calls/{theirs}/cancel").status == 404
    settings = ann.get("/settings").text
    assert 'aria-label="Your menu: Ann Müller-Lind"' in settings
    assert '<td>Ann Müller-Lind <code class="small">user:ann</code></td>' in settings
    found = set(re.findall(r"/calls/(call_\w+)", ann.get("/find?q=parrot").text))
    assert (hers in found, theirs in found) == (True, False)


@pytest.mark.req("B-18", "page of a call")
def test_everything_that_the_page_shows_is_in_the_api(served: Daemon) -> None:
    answer = served.ask(
        "POST", "/plugins/parrot/call/note", {"text": "oats", "token": "s3cret"}, idempotency_key="once"
    ).body
    record = served.ask("GET", f"/calls/{answer['call_id']}").body

    assert (record["inputs"], record["redacted"]) == ({"text": "oats", "token": "[redacted]"}, ["token"])
    assert (record["outcome"], record["origin"], record["idempotency_key"]) == ("succeeded", "cli", "once")
    assert record["decision"]["rules"][0]["id"] == "operators-may-call"
    assert [span["kind"] for span in record["timeline"]] == ["ran"]
    assert ["noted" in line["line"] for line in record["log"]] == [True]
    assert record["links"]["page"] == f"/calls/{answer['call_id']}"
