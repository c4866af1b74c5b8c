"""The console as people use it: a real browser, a real daemon, caged plugins."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.crawling import every_page
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file
from fixtures.parrot import parrot
from fixtures.pictures import LOOKS
from fixtures.visitors import needs_a_browser, visiting

pytestmark = needs_a_browser

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPT = "<img src=x onerror=\"document.title='bitten'\"><script>document.title='bitten'</script>"
SHORT = "<img src=x onerror=\"document.title='bitten'\">"
WRITTEN = """() => [
    document.title, document.querySelectorAll('img[onerror]').length, document.documentElement.outerHTML,
    document.documentElement.scrollWidth <= document.documentElement.clientWidth
]"""
CANARY = SCRIPT + "\u202egnip\x1b[31m"  # as no manifest may say it, and every answer and log may
BITING = """
from paddock_sdk import Plugin
plugin = Plugin("biting", "1.0.0")
@plugin.tool
def bite(params, context):
    plugin.log.info({canary!r})
    return {{"said": {canary!r}, {canary!r}: 1}}
@plugin.tool
def refuse(params, context):
    raise RuntimeError({canary!r})
plugin.run()
"""
FORM = {
    "type": "object",
    "required": ["op"],
    "properties": {
        "op": {
            "enum": ["ingest", "digest"],
            "default": "digest",
            "x-ui": {"enum_labels": {"ingest": "Ingest all"}, "enum_help": {"digest": "One summary"}},
        },
        "kb": {"type": "string", "x-ui": {"show_when": {"field": "op", "equals": "ingest"}, "help": "Where to"}},
        "secret": {"type": "string", "x-ui": {"hidden": True}},
        "anything": {},
        "short": {"type": "string", "minLength": 2},
        "people": {
            "type": "array",
            "items": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
        },
    },
}
RULE = """
@id("quiet-hours")
@text("Parrots do not count at night.")
forbid (principal, action in Action::"anyCall", resource == Callable::"parrot.count");
"""
ECHO = """
from paddock_sdk import Plugin
plugin = Plugin("former", "1.0.0")
@plugin.tool
def give_back(params, context):
    return {"got": params}
plugin.run()
"""


def biting(root: Path, name: str = "biting") -> Path:
    """A plugin that says a script wherever a manifest lets it say anything."""
    fields = {
        "op": {
            "enum": [SCRIPT],
            "title": SCRIPT,
            "x-ui": {"enum_labels": {SCRIPT: SCRIPT}, "enum_help": {SCRIPT: SCRIPT}},
        },
        "text": {
            "type": "string",
            "title": SCRIPT,
            "description": SCRIPT,
            "x-ui": {"help": SCRIPT, "placeholder": SCRIPT},
        },
        SCRIPT: {"type": "array", "items": {"type": "object", "properties": {SCRIPT: {"default": SCRIPT}}}},
    }
    form = {"type": "object", "title": SCRIPT, "properties": fields}
    tools = [
        {"name": name, "title": SCRIPT, "description": SCRIPT, "effects": ["read_only"], "input_schema": form}
        for name in ("bite", "refuse")
    ]
    knob = {"type": "text", "label": SHORT, "description": SCRIPT, "default": SCRIPT, "binds_to": "config.text"}
    config = {"type": "object", "properties": {"text": {"type": "string", "title": SCRIPT, "default": SCRIPT}}}
    system = {"type": "object", "properties": {"more": {"type": "string", "title": SCRIPT, "description": SCRIPT}}}
    said = dict.fromkeys(("title", "description", "author", "license", "homepage"), SCRIPT)
    native(
        root,
        name,
        runtime={"command": ["python3", "./main.py"]},
        capabilities=[],
        tools=tools,
        knobs={"text": knob},
        config_schema=config,
        system_config_schema=system,
        policy_tags=[SCRIPT],
        secrets=["token"],
        prompts=[{"name": "ask", "description": SCRIPT, "text": SCRIPT}],
        **said,
    )
    write_file(root / "main.py", BITING.format(canary=CANARY))
    return root


def former(root: Path) -> Path:
    tool = {"name": "give_back", "description": "x", "effects": ["read_only"], "input_schema": FORM}
    native(root, "former", runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=[tool])
    write_file(root / "main.py", ECHO)
    return root


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("console")
    paddock = Paddock(folder / "home")
    sources = [biting(folder / "biting"), former(folder / "former"), parrot(folder / "parrot"), EXAMPLES / "shu-notes"]
    for source in sources:
        paddock.quickly("plugin", "install", source, "--yes")
    for name in ("biting", "former", "shu_notes"):
        paddock.quickly("plugin", "enable", name, "--no-start")
    paddock.quickly("user", "add", "ann")
    write_file(folder / "home" / "policies" / "quiet.cedar", RULE)
    with daemon(paddock) as started:
        yield started


def test_whoever_is_not_signed_in_is_told_how_to_be(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served) as page:
        answer = page.goto("/plugins")

        assert answer is not None
        assert answer.status == 401
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        expect(page.get_by_text("paddock login")).to_be_visible()


@pytest.mark.req("S-37", "form from the schema")
def test_a_newcomer_enables_a_plugin_runs_a_tool_and_finds_it_in_the_ledger(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.get_by_role("link", name="Plugins", exact=True).click()
        page.get_by_role("link", name="parrot", exact=True).first.click()
        expect(page.get_by_text("What it may reach")).to_be_visible()
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_role("status")).to_have_text("It is enabled.")
        page.get_by_role("link", name="say", exact=True).click()

        page.get_by_role("button", name="Run it").click()
        expect(page.get_by_role("alert")).to_contain_text("1 mistake")
        page.get_by_label("Text").fill("hello there")
        page.get_by_role("button", name="Run it").click()

        expect(page.locator("#call-head").get_by_text("Succeeded")).to_be_visible()
        expect(page.get_by_label("Result as JSON")).to_contain_text('"said": "hello there"')
        page.get_by_role("link", name=re.compile("it worked")).click()
        expect(page.get_by_text("Place in the chain")).to_be_visible()


def test_a_call_is_watched_until_it_ends_and_can_be_cancelled(browser: Browser, served: Daemon) -> None:
    served.paddock.quickly("plugin", "enable", "parrot")
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/parrot/run/wait")
        page.get_by_role("button", name="Run it").click()
        expect(page.get_by_text("Running")).to_be_visible()
        said = page.get_by_text(re.compile(r"of \d+ messages"))
        before = said.inner_text()
        expect(said).not_to_have_text(before)  # without loading the page again
        expect(page.get_by_role("progressbar")).to_be_visible()

        page.get_by_role("button", name="Cancel").click()

        expect(page.locator("#call-head").get_by_text("Cancelled")).to_be_visible()


def test_somebody_reads_all_of_a_request_changes_it_and_says_yes(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/shu_notes/run/add_note")
        page.get_by_label("Text").fill("oats\u200b and \u202eyah")
        page.get_by_role("button", name="Run it").click()
        page.get_by_text("Open the request").click()
        params = page.locator("dl.inputs")
        expect(params).to_contain_text("U+200B")
        expect(params).to_contain_text("U+202E")

        expect(page.get_by_label("Text")).to_be_hidden()  # nobody changes what is not going to be approved
        page.locator("summary", has_text="Edit").click()
        page.get_by_label("Text").fill("oats and hay")
        page.get_by_text("Comment…").click()
        page.get_by_label("Comment").press("Enter")  # which answers nothing
        expect(page.get_by_label("Text")).to_have_value("oats and hay")
        page.get_by_role("button", name="Approve").click()
        page.get_by_role("button", name="Approve the edited version").click()
        expect(page.get_by_role("status")).to_have_text("Approved.")
        expect(page.locator("dl.inputs")).to_contain_text("oats and hay")  # the one that took its place

        page.get_by_role("link", name=re.compile("See its result|Follow the call")).click()
        expect(page.get_by_text(re.compile("Succeeded|was changed")).first).to_be_visible()


def test_whoever_runs_what_the_rules_deny_reads_why(browser: Browser, served: Daemon) -> None:
    served.paddock.quickly("plugin", "enable", "parrot")
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/parrot/run/count")
        expect(page.get_by_text("this is not for you to run")).to_be_visible()
        page.get_by_role("button", name="Write JSON").click()
        page.get_by_label("Parameters, as JSON").fill('{"to": 1}')
        page.get_by_role("button", name="Run it").click()

        expect(page.get_by_text("Parrots do not count at night.").first).to_be_visible()
        page.locator("#call-error").get_by_role("link", name="See the decision").click()
        expect(page.locator("#decision")).to_be_in_viewport()
        served.paddock.quickly("plugin", "disable", "parrot")
        page.reload()
        expect(page.get_by_role("button", name="Run again")).to_be_disabled()
        expect(page.locator("#runs-not")).to_contain_text("parrot")
        served.paddock.quickly("plugin", "enable", "parrot")
    with visiting(browser, served, "ann") as page:
        answer = page.goto("/plugins/parrot/run/count")
        assert answer is not None and answer.status == 404, "what is not for members is not there for them"


@pytest.mark.req("S-37", "form from the schema")
@pytest.mark.req("S-27", "hidden")
@pytest.mark.req("S-27", "show_when equals")
@pytest.mark.req("S-27", "enum_help")
def test_a_form_follows_what_is_chosen(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/former/run/give_back")
        expect(page.get_by_text("One summary")).to_be_visible()
        expect(page.get_by_label("Kb")).to_be_hidden()
        expect(page.get_by_label("Secret")).to_have_count(0)

        page.get_by_role("combobox", name="Op").select_option("Ingest all")
        expect(page.get_by_text("Where to")).to_be_visible()
        page.get_by_label("Kb").fill("notes")
        page.get_by_role("button", name="Run it").click()

        expect(page.get_by_label("Result as JSON")).to_contain_text('"kb": "notes"')


@pytest.mark.slow
def test_without_scripts_rows_are_added_and_taken_out_and_the_form_is_sent(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator", java_script_enabled=False) as page:
        page.goto("/plugins/former/run/give_back")
        for name in ("Ann", "Bob"):
            page.get_by_role("button", name="Add to People").click()
            page.get_by_label("Name", exact=True).last.fill(name)
        page.get_by_role("button", name="Remove People 1").click()
        page.get_by_label("Age", exact=True).fill("41")
        page.get_by_role("button", name="Run it").click()

        result = page.get_by_label("Result as JSON")
        expect(result).to_contain_text("Bob")
        expect(result).to_contain_text("41")
        expect(result).not_to_contain_text("Ann")


def test_parameters_can_be_written_as_json_and_stay_there_with_their_mistakes(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/former/run/give_back?raw")
        written = page.get_by_label("Parameters, as JSON")
        written.fill('{"op": "neither"}')
        page.get_by_role("button", name="Run it").click()
        expect(page.get_by_role("alert")).to_contain_text("is not one of the allowed values")
        expect(written).to_have_value('{"op": "neither"}')

        written.fill('{"op": "digest"}')
        page.get_by_role("button", name="Run it").click()
        expect(page.locator("#call-head").get_by_text("Succeeded")).to_be_visible()


def test_what_a_plugin_says_is_text_on_every_page_and_every_page_fits_a_phone(
    browser: Browser, served: Daemon, tmp_path: Path
) -> None:
    with visiting(browser, served, "operator", **LOOKS["phone"]) as page:
        page.goto("/install")
        page.get_by_label("Source").fill(str(biting(tmp_path / "again", "biting-too")))
        page.get_by_role("button", name="Fetch it").click()
        expect(page.get_by_role("button", name="Install")).to_be_visible()
        waiting = page.url.rpartition("/")[2]
        calls: list[str] = []
        for tool in ("bite", "refuse"):
            page.goto(f"/plugins/biting/run/{tool}")
            page.get_by_role("button", name="Run it").click()
            expect(page.locator("#call-head").get_by_text(re.compile("Succeeded|Failed"))).to_be_visible()
            calls.append(page.url.rpartition("/")[2])
        begin = [f"/{room}/{call}" for call in calls for room in ("calls", "ledger", "explain")]
        begin += [f"/plugins/biting{part}" for part in ("", "/settings", "/versions", "/logs", "/calls")]
        begin += ["/plugins/biting/run/bite?raw", f"/install/{waiting}"]
        for place in every_page(page, *begin):
            title, images, content, fits = page.evaluate(WRITTEN)
            assert (title == "bitten", images) == (False, 0), place
            assert "\u202e" not in content, f"{place} turns its words around"
            assert "\x1b" not in content, place
            assert fits, f"{place} is wider than a phone"


def test_a_member_sees_what_they_may_use_and_nothing_else(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "ann") as page:
        page.goto("/plugins/former")
        expect(page.get_by_role("link", name="give_back")).to_be_visible()
        expect(page.get_by_role("button", name="Disable")).to_have_count(0)
        expect(page.get_by_role("navigation", name="Places").get_by_role("link")).to_have_text(
            ["Home", "Inbox", "Plugins", "Activity"]
        )
        for place in ("/ledger", "/plugins/former/logs"):
            answer = page.goto(place)
            assert answer is not None
            assert answer.status == 403, place
        expect(page.get_by_role("heading", name="Not for you")).to_be_visible()


def test_what_cannot_be_read_stays_in_its_field_and_hides_no_other_mistake(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/former/run/give_back")
        page.get_by_label("Anything").fill("{nope")
        page.get_by_label("Short").fill("x")
        page.get_by_role("button", name="Run it").click()

        expect(page.get_by_role("alert")).to_contain_text("2 mistakes")
        expect(page.get_by_label("Anything")).to_have_value("{nope")


@pytest.mark.slow
def test_a_plugin_is_found_by_its_words(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins?find=SHU+running")
        expect(page.get_by_role("link", name="shu_notes")).to_be_visible()
        expect(page.get_by_role("link", name="former")).to_have_count(0)
        page.get_by_label("Filter the plugins").fill("<nothing>")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_text("No plugin has “<nothing>”")).to_be_visible()


@pytest.mark.slow
def test_what_no_database_keeps_is_told_to_whoever_sends_it(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        asked = page.request.get("/ledger?plugin=%00", headers={"accept": "text/html"})
        assert (asked.status, "holds a NUL" in asked.text()) == (400, True)
        ours = {"origin": "http://{}:{}".format(*served.tcp), "accept": "text/html"}
        sent = page.request.post("/plugins/former/run/give_back", form={"/kb": "a\0b"}, headers=ours)
        assert sent.status == 400
        retried = page.request.post("/api/v1/webhooks/none/retry", data={"event": "a\0b"}, headers=ours)
        assert retried.status == 400


@pytest.mark.slow
def test_every_page_is_there_for_people_who_do_not_see_it(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator", bypass_csp=True) as page:
        page.goto("/plugins/former/run/give_back")
        page.get_by_role("button", name="Run it").click()
        call = page.url.rpartition("/")[2]
        places = ["/", "/plugins", "/plugins/biting", "/plugins/former/run/give_back", "/plugins/biting/logs"]
        places += ["/approvals", "/approvals/standing", "/ledger", f"/ledger/{call}", f"/calls/{call}", "/nowhere"]
        found: list[str] = []
        for place in places:
            page.goto(place)
            found += violations(page)
        assert found == []
