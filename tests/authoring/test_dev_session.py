"""A session of `paddock dev`: what is saved serves a moment later, what is broken leaves the last version serving."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.authoring.workbench import Desk, at_work, edit, made

from paddock.authoring.dev_session import RepeatedCall
from paddock.cli.commands.dev_text import describe_dev_event

GREET = RepeatedCall("greet", {"name": "Ann"})
COUNTING = """
from paddock_sdk import Plugin
plugin = Plugin("counter", "1.0.0", capabilities_used=["storage:write"])
WORD = "first"
@plugin.tool
def count(params, context):
    plugin.storage.exec("CREATE TABLE IF NOT EXISTS counted (word TEXT)")
    plugin.storage.exec("INSERT INTO counted VALUES (?)", [WORD])
    return [row["word"] for row in plugin.storage.query("SELECT word FROM counted").rows]
plugin.run()
"""
COUNTER = """
paddock: 1
name: counter
version: 1.0.0
description: Counts
runtime: {command: [python3, ./main.py]}
capabilities: [storage:write]
tools: [{name: count, description: Count, effects: [db_write]}]
"""


def answers(desk: Desk) -> list[object]:
    return [event["result"] for event in desk.told.of("answer")]


@pytest.mark.req("G-32", "hot reload")
@pytest.mark.req("B-09", "reloads when it changes")
async def test_a_saved_file_is_loaded_and_the_call_is_made_again(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home", repeated=GREET) as desk:
        edit(folder / "main.py", '{name}!"', '{name}, again!"')
        await desk.told.event("answer", 2)
        loaded = await desk.told.event("loaded", 2)

    assert answers(desk) == [{"text": "Hello, Ann!"}, {"text": "Hello, Ann, again!"}]
    assert loaded["files"] == ["main.py"]


@pytest.mark.slow
async def test_a_version_that_hangs_is_replaced_by_the_next_that_is_saved_without_waiting_for_its_call(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home", repeated=GREET) as desk:
        edit(folder / "main.py", "plugin.log.info", "import time; time.sleep(600)\n    plugin.log.info")
        await desk.told.until(lambda: sum(event["kind"] == "call" for event in desk.told.of("traffic")) == 2)
        await desk.session.run_command('greet {"name": "Bob"}')
        edit(folder / "main.py", "import time; time.sleep(600)\n    ", "")
        await desk.told.event("answer", 2)

    assert answers(desk) == [{"text": "Hello, Ann!"}] * 2
    assert desk.told.of("failed") == []


@pytest.mark.req("B-09", "reloads when it changes")
async def test_what_the_plugin_keeps_outlives_its_reloads(tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    folder.mkdir()
    (folder / "main.py").write_text(COUNTING)
    (folder / "paddock.yaml").write_text(COUNTER)
    async with at_work(folder, tmp_path / "home", repeated=RepeatedCall("count", {})) as desk:
        edit(folder / "main.py", '"first"', '"second"')
        await desk.told.event("answer", 2)

    assert answers(desk) == [["first"], ["first", "second"]]


@pytest.mark.req("B-09", "a broken version leaves the last one serving")
async def test_a_syntax_error_leaves_the_last_version_serving_and_is_told_with_its_place(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home") as desk:
        edit(folder / "main.py", "def greet(", "def greet((")
        broken = await desk.told.event("not_loaded")
        await desk.session.run_command('greet {"name": "Ann"}')
        await desk.session.wait_for_calls()
        edit(folder / "main.py", "def greet((", "def greet(")
        await desk.told.event("loaded", 2)

    assert answers(desk) == [{"text": "Hello, Ann!"}]
    assert broken["serving"] == "0.1.0"
    assert str(folder / "main.py") in broken["error"]["message"]
    assert broken["error"]["hint"] == "fix it, and save"


async def test_advice_is_for_the_author_who_reads_it(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home") as desk:
        edit(folder / "main.py", "plugin.log.info", "1 / 0\n    plugin.log.info")
        await desk.told.event("loaded", 2)
        await desk.session.run_command('greet {"name": "Ann"}')
        failed = await desk.told.event("failed")
        edit(folder / "main.py", '"0.1.0"', '"0.1.0", capabilities_used=["storage:write"]')
        claimed = await desk.told.event("not_loaded")

    assert "plugin logs" not in failed["error"]["hint"] and "log, which is shown here" in failed["error"]["hint"]
    add = "add `storage:write` to `capabilities` in the manifest, or take it out of `capabilities_used`, and save"
    assert claimed["error"]["hint"] == add


@pytest.mark.slow
async def test_a_call_that_hangs_is_told_of_and_ended_by_typing_cancel(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", "plugin.log.info", "import time; time.sleep(600)\n    plugin.log.info")
    async with at_work(folder, tmp_path / "home", silent_for=0.1) as desk:
        await desk.session.run_command('greet {"name": "Ann"}')
        still = await desk.told.event("still_running")
        await desk.session.run_command("cancel")
        await desk.session.wait_for_calls()  # nothing is waited for any more
        await desk.session.run_command("cancel")

    assert describe_dev_event(still) == ["… greet still runs (0.1 s); type 'cancel' to end it"]
    assert [line for event in desk.told.of("cancelled") for line in describe_dev_event(event)] == [
        "cancelled: greet",
        "no call is under way",
    ]


async def test_a_mistake_in_the_manifest_leaves_the_last_version_serving_and_every_mistake_is_told(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home") as desk:
        edit(folder / "paddock.yaml", "effects: [read_only]", "effects: [magic]")
        broken = await desk.told.event("not_loaded")
        await desk.session.run_command('greet {"name": "Ann"}')
        await desk.session.wait_for_calls()

    assert broken["error"]["code"] == "manifest.invalid"
    assert [problem["path"] for problem in broken["error"]["errors"]] == ["tools[0].effects[0]"]
    assert answers(desk) == [{"text": "Hello, Ann!"}]


async def test_a_version_that_asks_for_more_waits_until_its_author_allows_it(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home") as desk:
        edit(folder / "paddock.yaml", "- net:[]", "- storage:write")
        refused = await desk.told.event("not_loaded")
        await desk.session.run_command("allow")
        await desk.told.event("loaded", 2)

    assert (refused["error"]["code"], refused["waiting"]) == ("consent_required", True)
    assert "storage:write" in refused["error"]["message"]


async def test_a_plugin_that_falls_over_while_it_serves_is_told_of_and_served_again_after_the_next_save(
    tmp_path: Path,
) -> None:
    folder = made(tmp_path / "plugin")
    edit(folder / "main.py", "plugin.log.info", "import os; os._exit(3)\n    plugin.log.info")
    async with at_work(folder, tmp_path / "home") as desk:
        await desk.session.run_command('greet {"name": "Ann"}')
        await desk.session.wait_for_calls()
        await desk.told.event("failed")
        await desk.told.event("ended")
        edit(folder / "main.py", "import os; os._exit(3)\n    ", "")
        await desk.told.event("loaded", 2)
        await desk.session.run_command('greet {"name": "Ann"}')
        await desk.session.wait_for_calls()

    assert answers(desk) == [{"text": "Hello, Ann!"}]


async def test_log_and_wire_are_told_in_words_and_secrets_are_not(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    edit(
        folder / "paddock.yaml",
        "config_schema:",
        "system_config_schema:\n  type: object\n  properties:\n    api_key: { type: string }\n\nconfig_schema:",
    )
    async with at_work(folder, tmp_path / "home", config={"api_key": "hunter2"}, repeated=GREET) as desk:
        await desk.told.event("answer")
        await desk.told.event("log")

    wire = [(event["kind"], event["name"], event["value"]) for event in desk.told.of("traffic")]
    assert ("call", "greet", {"name": "Ann"}) in wire
    assert ("result", "greet", {"text": "Hello, Ann!"}) in wire
    assert ("request", "config.update", {"config": {"greeting": "Hello", "api_key": "•••"}}) in wire
    assert "hunter2" not in str(desk.told.events)
    assert all(event["ms"] >= 0 for event in desk.told.of("traffic") if event["kind"] == "result")


async def test_typed_words_show_hide_and_explain_and_typing_errors_cost_nothing(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin")
    async with at_work(folder, tmp_path / "home") as desk:
        for line in ("traffic", "logs", "tools", "help", "", "greet {", "nobody {}"):
            await typed(desk, line)

    assert [event["shown"] for event in desk.told.of("shows")] == [False, False]
    assert desk.told.of("tools")[0]["tools"] == ["greet"]
    assert "quit" in desk.told.of("help")[0]["commands"]
    assert desk.told.of("failed")[0]["error"]["code"] == "callable.not_found"


async def typed(desk: Desk, line: str) -> None:
    from paddock.core.errors import PaddockError

    try:
        await desk.session.run_command(line)
    except PaddockError as error:
        assert error.error_code == "json.malformed"


async def test_a_server_of_tools_is_followed_too_and_offers_what_it_lists(tmp_path: Path) -> None:
    folder = made(tmp_path / "plugin", "mcp")
    async with at_work(folder, tmp_path / "home", repeated=GREET) as desk:
        edit(folder / "server.py", "Hello, {name}", "Good day, {name}")
        await desk.told.event("answer", 2)

    said = [event["result"]["content"][0]["text"] for event in desk.told.of("answer")]
    assert said == ["Hello, Ann!", "Good day, Ann!"]
