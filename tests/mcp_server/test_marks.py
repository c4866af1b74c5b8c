"""What a server says of its tools, as clients and approvers see it: never weaker than what is known, never inverted."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from tests.mcp_server.speaking import Client

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon
from fixtures.marked import marked
from fixtures.packages import write_file
from fixtures.page_clients import signed_in
from fixtures.people import key_of
from paddock.mcp_server.tool_definitions import tool_annotations

# Nobody is asked about the tools of one plugin, so that they can be seen to fail.
RULES = """
@id("unknown-effects-are-confirmed") @text("Confirm it.") @approval("confirmation") @remember("tool")
forbid (principal, action == Action::"callUnattended", resource)
when { resource.effects.contains(Effect::"unknown") } unless { resource in Plugin::"failing" };
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("marks")
    paddock = Paddock(folder / "home")
    (folder / "notes").mkdir()
    paddock.quickly("plugin", "install", marked(folder / "caged", "caged"), "--yes")
    named = ("--grant", f"write:fs:{folder / 'notes'}")
    keeper = marked(folder / "keeper", "keeper", capabilities=[f"write:fs:{folder / 'notes'}"])
    paddock.quickly("plugin", "install", keeper, "--yes", *named)
    failing = marked(folder / "failing", "failing", capabilities=[f"write:fs:{folder / 'notes'}"])
    paddock.quickly("plugin", "install", failing, "--yes", *named)
    write_file(paddock.home / "policies" / "failing.cedar", RULES).chmod(0o600)
    (paddock.home / "policies").chmod(0o700)
    paddock.quickly("plugin", "enable", "caged")
    with daemon(paddock) as started:
        paddock.quickly("plugin", "enable", "keeper")
        yield started


@pytest.fixture(autouse=True)
def untrusted(served: Daemon) -> Generator[None, None, None]:
    yield
    for word in ("reads", "errors"):
        served.paddock.quickly("plugin", "trust", "keeper", f"--{word}", "--off")


def published(served: Daemon) -> dict[str, dict[str, Any]]:
    tools = Client(served).ask("tools/list").result["tools"]
    return {tool["_meta"]["dev.paddock/name"]: tool for tool in tools}


def asks(tools: dict[str, dict[str, Any]], plugin: str) -> set[str]:
    return {
        name.removeprefix(f"{plugin}.")
        for name, tool in tools.items()
        if name.startswith(f"{plugin}.") and tool["_meta"]["dev.paddock/asks"]
    }


def test_what_deletes_by_its_own_word_is_not_published_as_reading_and_what_reads_not_as_deleting(
    served: Daemon,
) -> None:
    tools = published(served)
    hints = {name: tool["annotations"] for name, tool in tools.items()}

    assert hints["caged.delete"] == {
        "readOnlyHint": False,
        "destructiveHint": True,
        "idempotentHint": False,
        "openWorldHint": True,
    }
    assert hints["caged.look"] == hints["caged.plain"] == {"readOnlyHint": True, "openWorldHint": False}
    assert hints["keeper.look"] == {"openWorldHint": True}, "what nobody verified is left out, and not inverted"
    assert hints["keeper.search"] == {}
    assert hints["keeper.add"] == {"readOnlyHint": False, "openWorldHint": True}
    assert hints["keeper.delete"] == hints["keeper.plain"] == hints["caged.delete"]
    claims = {name: tool["_meta"]["dev.paddock/claim"] for name, tool in tools.items() if name.startswith("keeper.")}
    assert claims == {
        "keeper.look": "reads",
        "keeper.search": "reads",
        "keeper.add": "adds",
        "keeper.delete": "deletes",
        "keeper.plain": "nothing",
    }
    assert asks(tools, "caged") == {"add", "delete"}
    assert asks(tools, "keeper") == {"look", "search", "add", "delete", "plain"}


@pytest.mark.parametrize(
    ("effects", "claims", "hints"),
    [
        (("db_write",), {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": True}),
        (("temp_write",), {"destructiveHint": True}, {"readOnlyHint": False, "destructiveHint": True}),
        (("temp_write",), {"destructiveHint": False}, {"readOnlyHint": False, "destructiveHint": False}),
        (("external_send", "unknown"), {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": True}),
        (
            ("unknown",),
            {"readOnlyHint": True, "destructiveHint": True},
            {"readOnlyHint": False, "destructiveHint": True},
        ),
        (("unknown",), {"readOnlyHint": False}, {"readOnlyHint": False, "destructiveHint": True}),
        (("unknown",), {"readOnlyHint": "yes"}, {"readOnlyHint": False, "destructiveHint": True}),
    ],
)
def test_the_stricter_of_what_is_known_and_what_is_claimed_is_published(
    effects: tuple[str, ...], claims: dict[str, Any], hints: dict[str, bool]
) -> None:
    made = tool_annotations(effects, claims)
    assert {name: made[name] for name in made if name in ("readOnlyHint", "destructiveHint")} == hints


def test_a_person_who_is_asked_reads_what_the_tool_says_of_itself(served: Daemon) -> None:
    waiting = {
        name: served.ask("POST", f"/plugins/keeper/call/{name}", {}).body for name in ("look", "delete", "plain")
    }
    for name, word in (("delete", "deletes"), ("look", "only reads (unverified)")):
        told = Client(served).call(f"keeper__{name}", fail="asked").result["content"][0]["text"]
        assert f"keeper {name} waits for a person: it says it {word}. Confirm it." in told
    assert {name: body["approval"]["preview"]["does"] for name, body in waiting.items()} == {
        "look": ["says it only reads (unverified)"],
        "delete": ["says it deletes"],
        "plain": ["says nothing about what it changes, so take it as able to change anything"],
    }


def test_a_call_that_waits_for_a_yes_ends_when_its_tool_is_trusted_to_read(served: Daemon) -> None:
    looking, deleting = (
        served.ask("POST", f"/plugins/keeper/call/{tool}", {}).body["call_id"] for tool in ("look", "delete")
    )
    served.paddock.quickly("plugin", "trust", "keeper", "--reads", "--yes")

    ended = served.ask("GET", f"/calls/{looking}").body
    assert (ended["status"], ended["error"]["code"]) == ("failed", "approval.voided")
    assert "the tool is trusted to only read now, so make the call again" in ended["error"]["message"]
    assert served.ask("POST", "/plugins/keeper/call/look", {}).body["status"] == "succeeded"
    waiting = [one["call_id"] for one in served.ask("GET", "/approvals").body["approvals"]]
    assert (looking in waiting, deleting in waiting) == (False, True), "nobody trusts what deletes"
    served.ask("POST", f"/calls/{deleting}/cancel")


def test_trusted_marks_are_reads_for_the_rules_for_clients_and_when_they_fail(served: Daemon) -> None:
    changed = served.ask("POST", "/plugins/keeper/trust", {"word": "reads", "trusted": True})
    assert (changed.status, changed.body["tools"]) == (200, ["look", "search"])

    tools = published(served)
    assert tools["keeper.look"]["annotations"] == {"readOnlyHint": True, "openWorldHint": True}
    assert tools["keeper.search"]["annotations"]["readOnlyHint"] is True
    assert asks(tools, "keeper") == {"add", "delete", "plain"}
    client = Client(served)
    assert client.call("keeper__look").result["content"][0]["text"] == "done"
    for fail in ("error", "protocol", "exit"):
        assert client.call("keeper__look", fail=fail).result["isError"] is True
    assert served.ask("GET", "/calls/unresolved").body["calls"] == []
    served.ask("POST", "/plugins/keeper/trust", {"word": "reads", "trusted": False, "tools": ["look"]})
    assert asks(published(served), "keeper") == {"look", "add", "delete", "plain"}


def test_only_a_person_takes_a_servers_word_and_for_what_they_were_shown(served: Daemon) -> None:
    served.paddock.quickly("user", "add", "ann", "--role", "operator")
    key = key_of(served.paddock, "ann", "--role", "operator")
    body = {"word": "reads", "trusted": True}
    for path, sent in (("trust", body), ("enable", {"trust_reads": True})):
        refused = served.ask("POST", f"/plugins/keeper/{path}", sent, authorization=f"Bearer {key}")
        assert (refused.status, refused.body["code"]) == (403, "auth.person_needed")
    stale = served.ask("POST", "/plugins/keeper/trust", {**body, "tools": ["look"], "shown": {"look": "sha256:0"}})
    assert (stale.status, stale.body["code"]) == (409, "definition.changed_meanwhile")
    unnamed = served.ask("POST", "/plugins/keeper/trust", {"word": "errors", "trusted": True})
    assert unnamed.status == 400
    assert served.ask("GET", "/plugins/keeper/tools").body["read_marks"]["trusted"] == []


def test_enabling_takes_the_read_only_marks_where_a_person_says_so_at_once(served: Daemon) -> None:
    enabled = served.ask("POST", "/plugins/keeper/enable", {"trust_reads": True})
    assert enabled.body["trusted_reads"] == ["look", "search"]
    served.paddock.quickly("plugin", "trust", "keeper", "--reads", "--off")

    told = served.paddock.quickly("plugin", "enable", "keeper")
    assert "2 tools say they only read (unverified): look, search" in told.err
    assert "Trust its own read-only marks: 2 tools?" in served.paddock.on_terminal(
        "plugin", "enable", "keeper", answers=["y"]
    )
    assert served.ask("GET", "/plugins/keeper/tools").body["read_marks"]["trusted"] == ["look", "search"]


def test_the_console_shows_the_marks_and_takes_them_with_a_tick(served: Daemon) -> None:
    operator = signed_in(served, "operator")
    page = operator.get("/plugins/keeper")
    assert "Says it only reads (unverified)" in page.text and "Says it deletes" in page.text
    assert "Trust its own read-only marks: 2 tools" in page.text
    shown = served.ask("GET", "/plugins/keeper/tools").body["read_marks"]["untrusted"]
    ticked = [f'["{name}", "{seen}"]' for name, seen in shown.items()]

    taken = operator.followed("/plugins/keeper/trust", word="reads", trusted="yes", tool=ticked)
    assert "Trusted from now on." in taken.text
    assert "2 tools count as read-only: " in taken.text
    settled = operator.followed("/plugins/keeper/trust", word="errors", trusted="yes", tool='["plain", ""]')
    assert "Errors count as not done" in settled.text
    operator.followed("/plugins/keeper/trust", word="reads", trusted="no")
    assert served.ask("GET", "/plugins/keeper/tools").body["read_marks"]["trusted"] == []
    for nonsense in ({"word": "x"}, {"word": "reads", "trusted": "yes"}, {"word": "reads", "tool": "[1]"}):
        assert operator.send("/plugins/keeper/trust", **nonsense).status == 400


def in_doubt(served: Daemon, tool: str) -> set[str]:
    """The ways to fail that leave the outcome of a call unknown."""
    doubted: set[str] = set()
    for fail in ("error", "protocol", "nothing done", "exit"):
        failed = served.ask("POST", f"/plugins/failing/call/{tool}", {"fail": fail}).body
        assert failed["status"] in (502, 503), failed
        if failed["details"].get("effect") == "in_doubt":
            doubted.add(fail)
    served.ask("POST", "/plugins/failing/enable?anew=1", {})
    return doubted


def test_which_failures_leave_an_outcome_unknown_depends_on_what_is_known_of_the_tool(served: Daemon) -> None:
    paddock = served.paddock
    enabled = paddock.quickly("plugin", "enable", "failing", "--trust-reads", "--json").json
    assert enabled["trusted_reads"] == ["look", "search"]
    assert in_doubt(served, "look") == set(), "it only reads by its mark, which is trusted"
    assert in_doubt(served, "delete") == {"error", "protocol", "exit"}

    paddock.quickly("plugin", "trust", "failing", "delete", "--errors", "--yes")
    assert in_doubt(served, "delete") == {"exit"}, "a server that dies says nothing"
    paddock.quickly("plugin", "trust", "failing", "delete", "--errors", "--off")
    assert "error" in in_doubt(served, "delete")
