"""Trying a plugin at the console, with a real browser and without scripts: tick what it needs, and it answers."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from fixtures.accessibility import violations
from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import write_file, write_json
from fixtures.visitors import needs_a_browser, visiting

pytestmark = needs_a_browser

SERVER = """
import json, os, sys

open(sys.argv[1] + "/started", "w").close()
TOOLS = [{"name": name, "description": name, "inputSchema": {"type": "object"}} for name in ("look", "put", "count")]
TOOLS[0]["annotations"] = TOOLS[2]["annotations"] = {"readOnlyHint": True}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answer = {"tools": TOOLS} if asked["method"] == "tools/list" else {}
    if asked["method"] == "initialize":
        answer = {"protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}}}
        answer["serverInfo"] = {"name": "needy", "version": "1"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": answer}), flush=True)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("trial")


@pytest.fixture(scope="module")
def served(folder: Path) -> Generator[Daemon, None, None]:
    """A host with two servers of this machine that a person took over; both write into a folder of their own."""
    paddock = Paddock(folder / "home")
    entries = {}
    for name in ("needy", "plain"):
        (folder / name / "docs").mkdir(parents=True)
        script = write_file(folder / name / "server" / "main.py", SERVER)
        entries[name] = {"command": "python3", "args": [str(script), str(folder / name / "docs")]}
    paddock.quickly("import", write_json(folder / "mcp.json", {"mcpServers": entries}), "--yes")
    with daemon(paddock) as started:
        yield started


def granted(served: Daemon, name: str) -> list[str]:
    listed = served.paddock.quickly("plugin", "show", name, "--json").json["capabilities"]
    return [one for one in listed if one != "net:[]"]


def try_until_it_answers(page: Page, name: str, docs: Path) -> None:
    """From the plugin's page to a trial that answers; without scripts a link shows how far it is."""
    script = docs.parent / "server" / "main.py"
    page.goto(f"/plugins/{name}")
    page.locator("summary[aria-label^='More of']").click()
    page.get_by_role("button", name="Try it").click()
    reload_until(page, page.get_by_role("heading", name="It does not answer"))
    expect(page.get_by_label(f"read:fs:{script}")).to_be_checked()
    page.get_by_role("button", name="Grant and try again").click()

    wanted = page.get_by_label(f"write:fs:{docs}")
    reload_until(page, wanted)
    expect(page.get_by_text(f"Writes {docs}")).to_contain_text("named in its arguments")
    wanted.check()
    page.get_by_role("button", name="Grant and try again").click()
    reload_until(page, page.get_by_text("It answers, 3 tools."))


def reload_until(page: Page, wanted: Locator) -> None:
    """Wait for the trial's end. With scripts the page follows it; without, a person presses the link."""
    link = page.get_by_role("link", name="See how far it is")
    while link.count():
        link.click()
    expect(wanted).to_be_visible()


@pytest.mark.req("B-21", "reasons")
def test_a_person_tries_a_plugin_ticks_what_it_needs_and_trusts_its_marks(
    browser: Browser, served: Daemon, folder: Path
) -> None:
    docs = folder / "needy" / "docs"
    with visiting(browser, served, "operator") as page:
        page.goto("/plugins/needy")
        marks = page.get_by_role("checkbox", name="Trust its own read-only marks")
        expect(marks).to_have_accessible_name("Trust its own read-only marks")  # beside Enable: nobody knows them yet
        try_until_it_answers(page, "needy", docs)
        assert violations(page) == []
        assert granted(served, "needy") == [f"read:fs:{docs.parent}/server/main.py", f"write:fs:{docs}"]

        page.goto("/plugins/needy")
        expect(marks).to_have_count(1)
        page.goto("/plugins/needy/try")
        expect(page.get_by_text("look, count")).to_be_visible()
        expect(page.get_by_role("button", name="Enable")).to_have_count(1)
        page.get_by_label("Trust its own read-only marks: 2 tools").check()
        page.get_by_role("button", name="Trust them").click()
        expect(page.get_by_role("status")).to_have_text("Trusted from now on.")
        expect(page.get_by_text("2 tools count as read-only")).to_contain_text("trusted by local user root.")
        page.get_by_role("button", name="Enable").click()
        expect(page.get_by_role("status")).to_have_text("It is enabled.")
    tools = served.paddock.quickly("plugin", "tools", "needy", "--json").json["tools"]
    assert {one["name"]: one["effects"] for one in tools} == {
        "look": ["read_only"],
        "put": ["unknown"],
        "count": ["read_only"],
    }


@pytest.mark.slow
def test_a_trial_needs_no_scripts(browser: Browser, served: Daemon, folder: Path) -> None:
    with visiting(browser, served, "operator", java_script_enabled=False) as page:
        try_until_it_answers(page, "plain", folder / "plain" / "docs")
    assert f"write:fs:{folder}/plain/docs" in granted(served, "plain")
