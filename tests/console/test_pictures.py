"""The pictures that the documentation can show: in light, in dark and on a phone (`./run docs --pictures`)."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.packages import write_file
from fixtures.pictures import LOOKS, keep_picture
from fixtures.visitors import needs_a_browser, visiting

pytestmark = needs_a_browser

EXAMPLES = Path(__file__).parents[2] / "examples"
ENABLED = ("native-notes", "slow-count", "greeter")
RULES = """
@id("notes-need-a-yes")
@text("Somebody reads every note before it is kept.")
@approval("action")
forbid (principal, action == Action::"callUnattended", resource == Callable::"native-notes.add_note");
"""
FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    """A host that is used: plugins that run, calls that were made, and one that waits for somebody."""
    paddock = Paddock(tmp_path_factory.mktemp("pictures") / "home")
    for name in (*ENABLED, "fourth-generation-formula"):
        paddock.quickly("plugin", "install", EXAMPLES / name, "--yes")
    for name in ENABLED:
        paddock.quickly("plugin", "enable", name)
    paddock.quickly("user", "add", "ann", "--name", "Ann Lee", "--role", "operator")
    paddock.quickly("user", "add", "bo", "--name", "Bo Berg")
    write_file(paddock.home / "policies" / "notes.cedar", RULES)
    with daemon(paddock) as started:
        paddock("call", "greeter.greet", "-p", '{"name": "Ada"}', "--as", "user:bo")
        paddock("call", "slow-count.count", "-p", '{"to": 3, "pause_ms": 1}', "--as", "user:bo")
        paddock("call", "native-notes.add_note", "-p", '{"text": "Buy oats"}', "--as", "user:bo", code=4)
        yield started


@pytest.fixture(scope="module")
def places(served: Daemon) -> dict[str, str]:
    """The pages that the documentation can show, and where they are."""
    approval = served.paddock("approval", "list", "--json").json["approvals"][0]["id"]
    calls = served.paddock("call", "list", "--json").json["calls"]
    call = next(one["call_id"] for one in calls if one["plugin"] == "slow-count")
    return {
        "home": "/",
        "plugins": "/plugins",
        "plugin": "/plugins/native-notes",
        "tool": "/plugins/native-notes/run/add_note",
        "install": "/install",
        "inbox": f"/inbox?open={approval}",
        "approval": f"/approvals/{approval}",
        "ledger": "/ledger",
        "call": f"/calls/{call}",
        "map": "/map",
        "policy": "/policy",
    }


@pytest.mark.slow
@pytest.mark.parametrize("look", LOOKS)
def test_pages_look_as_they_should_and_their_pictures_are_kept(
    browser: Browser, served: Daemon, places: dict[str, str], look: str
) -> None:
    with visiting(browser, served, "ann", **LOOKS[look]) as page:
        for name, place in places.items():
            answer = page.goto(place)
            assert answer is not None
            assert answer.status == 200, place
            assert page.evaluate(FITS), f"{place} is wider than its window"
            assert keep_picture(page, name, look, served.paddock.home).stat().st_size > 5_000, (
                "there is something to see"
            )
