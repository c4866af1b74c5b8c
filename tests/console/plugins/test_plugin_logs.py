"""A plugin's log at the console: followed live, paused, narrowed and downloaded, and hostile lines are only text."""

from __future__ import annotations

import re
from collections.abc import Generator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import native, write_file
from fixtures.visitors import needs_a_browser, visiting
from paddock.host.plugins.logs.log_lines import LogFilter, LogLine, parse_log_line

pytestmark = needs_a_browser

PAGE = "/plugins/teller/logs"
SCRIPT = "<script>document.title='bitten'</script><img src=x onerror=\"document.title='bitten'\">"
HOSTILE = SCRIPT + "\x1b[31m\x1b]0;bitten\x07\u202egnip"
MAIN = """
import sys
from paddock_sdk import Plugin
plugin = Plugin("teller", "1.0.0")
@plugin.tool
def tell(params, context):
    level, text = params["level"], params["text"]
    if level:
        getattr(plugin.log, level)(text)
    else:
        print(text, file=sys.stderr, flush=True)
    return {}
plugin.run()
"""


def teller(root: Path) -> Path:
    takes = {"type": "object", "properties": {"level": {"type": "string"}, "text": {"type": "string"}}}
    tool = {"name": "tell", "description": "t", "effects": ["read_only"], "input_schema": takes}
    native(root, "teller", runtime={"command": ["python3", "./main.py"]}, capabilities=[], tools=[tool])
    write_file(root / "main.py", MAIN)
    return root


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("logs")
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", teller(folder / "teller"), "--yes")
    paddock.quickly("plugin", "enable", "teller", "--no-start")
    paddock.quickly("user", "add", "ann")
    with daemon(paddock) as started:
        yield started


def told(served: Daemon, text: str, level: str = "") -> None:
    answer = served.ask("POST", "/plugins/teller/call/tell", {"level": level, "text": text})
    assert answer.status == 200, answer.body


def log(page: Page) -> str:
    return page.get_by_role("log").inner_text()


def test_lines_of_a_log_show_the_time_of_their_reader(browser: Browser, served: Daemon) -> None:
    told(served, "before anybody looked")
    with visiting(browser, served, "operator", timezone_id="Asia/Kathmandu") as page:
        page.goto(PAGE)
        expect(page.get_by_text("Following.")).to_be_visible()
        told(served, "while somebody looks", "warning")
        expect(page.get_by_role("log")).to_contain_text("while somebody looks")
        for line in page.locator("#log time").all():  # those that came with the page, and those after
            at = datetime.fromisoformat(str(line.get_attribute("datetime"))) + timedelta(hours=5, minutes=45)
            assert line.inner_text() == f"{at:%H:%M:%S}"


@pytest.mark.slow
def test_lines_are_narrowed_by_words_and_level_and_stay_so_while_they_are_followed(
    browser: Browser, served: Daemon
) -> None:
    told(served, "needle one", "error")
    told(served, "needle two", "info")
    told(served, "hay", "error")
    with visiting(browser, served, "operator") as page:
        page.goto(PAGE)
        page.get_by_label("Text").fill("NEEDLE")
        page.get_by_label("Level").select_option("Errors only")
        page.get_by_role("button", name="Filter").click()
        expect(page.get_by_text("Following.")).to_be_visible()
        told(served, "hay again", "error")
        told(served, "needle three", "error")
        expect(page.get_by_role("log")).to_contain_text("needle three")
        assert re.findall(r"needle \w+|hay", log(page)) == ["needle one", "needle three"]

        whole = page.request.get("/plugins/teller/logs/text?q=needle")
        assert whole.headers["content-disposition"].startswith("attachment")
        assert whole.headers["content-type"].startswith("text/plain")
        assert re.findall(r"\w+ needle \w+", whole.text()) == [
            "error needle one", "info needle two", "error needle three",
        ]  # fmt: skip


def test_a_hostile_line_is_shown_and_obeyed_nowhere(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator") as page:
        page.goto(PAGE)
        expect(page.get_by_text("Following.")).to_be_visible()
        for level in ("", "error"):
            told(served, HOSTILE + (level or "plain"), level)
        expect(page.get_by_role("log")).to_contain_text("gnipplain")
        expect(page.get_by_role("log")).to_contain_text("gniperror")
        for again in (False, True):  # as it comes, and as it is kept
            if again:
                page.reload()
            expect(page.get_by_role("log")).to_contain_text("<script>document.title='bitten'</script>")
            expect(page.get_by_role("log")).to_contain_text(r"\x1b[31m")
            assert "bitten" not in page.title()
            assert page.locator("#log img, #log script").count() == 0
            assert not any(one in page.content() for one in ("\x1b", "\u202e", "\x07"))
        text = page.request.get("/plugins/teller/logs/text").text()
        assert not any(one in text for one in ("\x1b", "\u202e", "\x07"))


def test_without_scripts_the_log_is_loaded_again_by_a_link(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "operator", java_script_enabled=False) as page:
        page.goto(PAGE)
        told(served, "since then")
        page.get_by_role("button", name="Load again").click()
        expect(page.get_by_role("log")).to_contain_text("since then")
        expect(page.locator("noscript p")).to_be_visible()  # it says that times are in UTC


def test_a_log_is_for_operators_alone(browser: Browser, served: Daemon) -> None:
    with visiting(browser, served, "ann") as page:
        for place in (PAGE, f"{PAGE}/live", f"{PAGE}/text"):
            assert page.request.get(place).status == 403, place


def test_a_line_that_is_no_record_has_no_level() -> None:
    odd = ['{"level": "error"}', '{"message": 1, "level": "info"}', "[1", '{"level": "loud", "message": "x"}']
    lines = [parse_log_line({"at": "2030-01-01T00:00:00", "line": one}) for one in odd]

    assert [one.level for one in lines] == ["", "", "", ""]
    assert not any(LogFilter(level="debug").matches(one) for one in lines)
    assert LogFilter(text="STEP").matches(LogLine("", "error", "x", ("a step",)))
