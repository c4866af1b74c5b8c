"""Finding things in the console: what is found, by whom, and with the keyboard alone."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native
from fixtures.page_clients import Person, signed_in
from fixtures.visitors import needs_a_browser, visiting
from paddock.console.search import MAX_HITS_PER_GROUP, MAX_QUERY_CHARS, SearchHit, SearchQuery

SCRIPT = "<script>document.title='bitten'</script>"
RULES = """
@id("ann-gets-no-secrets")
@text("Ann may not use the vault.")
forbid (principal == User::"user:ann", action, resource == Callable::"oats.vault_open");
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("find")
    paddock = Paddock(folder / "home")
    tools = [
        {"name": name, "description": f"{words} {SCRIPT}", "effects": ["read_only"], "input_schema": {"type": "object"}}
        for name, words in (("oats_count", "Counts oats"), ("vault_open", "Opens the vault"))
    ]
    paddock.quickly(
        "plugin", "install", native(folder / "oats", "oats", description=f"Oats {SCRIPT}", tools=tools), "--yes"
    )
    paddock.quickly("plugin", "enable", "oats", "--no-start")
    paddock.quickly("user", "add", "ann", "--name", f"Ann {SCRIPT}")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "omar", "--tenant", "acme", "--role", "operator")
    policies = paddock.home / "policies"
    policies.mkdir(mode=0o700, exist_ok=True)
    (policies / "ann.cedar").write_text(RULES)
    with daemon(paddock) as started:
        yield started


@pytest.fixture(scope="module")
def operator(served: Daemon) -> Person:
    return signed_in(served, "operator")


@pytest.mark.parametrize(
    ("typed", "title", "rank"),
    [
        ("notes", "notes", 0),
        ("note", "notes", 1),
        ("add", "notes.add_note", 2),
        ("tes", "notes", 3),
        ("letters", "notes", 4),
        ("horse", "notes", None),
    ],
)
def test_better_matches_come_first(typed: str, title: str, rank: int | None) -> None:
    assert SearchQuery.parse(typed).rank(title, "Writes letters") == rank


def test_a_search_is_bounded_in_what_it_takes_and_what_it_gives() -> None:
    assert len(SearchQuery.parse("x" * 10_000).text) == MAX_QUERY_CHARS
    group = SearchQuery.parse("p").best("Plugins", (SearchHit(f"p{number}", "", "/") for number in range(100)))
    assert (len(group.hits), group.more) == (MAX_HITS_PER_GROUP, True)


def test_only_whole_ids_lead_to_the_page_of_what_they_name() -> None:
    named = SearchQuery.parse(" CALL_01m7r5y1d0mzqpbdba3a0f04cw ").named_by_id()
    assert named is not None
    assert named.path == "/calls/call_01m7r5y1d0mzqpbdba3a0f04cw"
    assert SearchQuery.parse("call_01m7r5/../x").named_by_id() is None
    assert SearchQuery.parse("call_").named_by_id() is None


def test_an_operator_finds_plugins_tools_people_and_pages_and_what_plugins_say_is_text(operator: Person) -> None:
    found = operator.get("/find?q=oats").text
    assert 'href="/plugins/oats"' in found
    assert 'href="/plugins/oats/run/oats_count"' in found
    assert 'href="/settings/people/ann"' in operator.get("/find?q=ann").text
    assert 'href="/settings/webhooks"' in operator.get("/find?q=web").text
    assert "<script>document" not in found + operator.get("/find/results?q=ann").text
    assert "Nothing found" in operator.get("/find?q=%3Cscript%3Ezzz").text
    assert operator.get("/find?q=" + "x" * 5_000).status == 200


def test_the_best_hit_comes_first_whether_it_is_a_page_or_a_tool(operator: Person) -> None:
    found = operator.get("/find/results?q=count").text
    assert found.index("oats.oats_count") < found.index("Accounts")


def test_people_find_only_what_they_may_see(served: Daemon) -> None:
    ann, omar = signed_in(served, "ann"), signed_in(served, "omar", "--tenant", "acme")
    found = ann.get("/find?q=a").text
    assert "/settings/people" not in found
    assert "/policy" not in found
    assert "oats_count" in ann.get("/find/results?q=oats").text
    assert "vault_open" not in ann.get("/find/results?q=vault").text
    assert "oats_count" not in omar.get("/find/results?q=oats").text
    assert "/settings/people/ann" not in omar.get("/find/results?q=ann").text
    served.ask("POST", "/plugins/oats/call/vault_open", {}, paddock_as="user:ann")
    denied = ann.get("/find/results?q=vault").text
    assert "Denied · “Ann " in denied and "(ann)<" in denied
    assert "Nothing found" in omar.get("/find/results?q=vault").text


@needs_a_browser
def test_the_keyboard_alone_finds_things_moves_in_lists_and_shows_its_keys(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        press = page.keyboard.press
        press("Tab")
        expect(page.get_by_role("link", name="To the content")).to_be_focused()

        press("Control+k")
        palette = page.get_by_role("dialog", name="Search")
        expect(palette.get_by_role("searchbox")).to_be_focused()
        page.keyboard.type("oats")
        expect(palette.get_by_role("link", name="oats.oats_count")).to_be_visible()
        assert violations(page) == []
        press("ArrowDown")
        expect(palette.get_by_role("link").first).to_be_focused()
        press("Enter")
        page.wait_for_url("**/plugins/oats")

        page.goto("/find?q=people")
        page.keyboard.press("Control+k")
        page.keyboard.type("ann")
        press("Enter")  # opens the best result
        page.wait_for_url("**/settings/people/ann")

        page.goto("/find?q=oats")
        rows = page.locator("[data-rows] a")
        press("j")
        press("j")
        expect(rows.nth(1)).to_be_focused()
        press("k")
        expect(rows.nth(0)).to_be_focused()
        press("Control+j")  # with a modifier it belongs to the browser
        expect(rows.nth(0)).to_be_focused()
        press("/")
        field = page.locator("main").get_by_label("Search everything")
        expect(field).to_be_focused()
        page.keyboard.type("jk/?")
        expect(field).to_have_value("oatsjk/?" if field.input_value().startswith("oats") else "jk/?oats")
        press("Escape")
        expect(field).not_to_be_focused()

        press("?")
        keys = page.get_by_role("dialog", name="Keyboard")
        expect(keys).to_be_visible()
        assert violations(page) == []
        keys.get_by_label("Use keys without Ctrl").uncheck()
        press("Escape")
        expect(keys).to_be_hidden()
        press("?")
        expect(keys).to_be_hidden()
        page.reload()
        press("?")
        expect(keys).to_be_hidden()


@pytest.mark.slow
@needs_a_browser
def test_everything_is_found_without_scripts_too(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "ann", java_script_enabled=False) as page:
        page.get_by_role("link", name="Search").click()
        page.locator("main").get_by_label("Search everything").fill("count")
        page.locator("main").get_by_role("button", name="Search").click()
        page.get_by_role("link", name="oats.oats_count").click()
        expect(page.get_by_role("button", name="Run it")).to_be_visible()
        page.get_by_label("Your menu").click()
        page.get_by_role("link", name="Keyboard").click()
        expect(page.get_by_role("cell", name="Show the keys")).to_be_visible()
        page.get_by_label("Your menu").click()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("link", name="Search")).to_have_count(0)
