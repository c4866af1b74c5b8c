"""Documents and prompts of a caged server: listed from what was accepted, read through the one door."""

from __future__ import annotations

import json
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from tests.definitions.test_rug_pull import until_said
from tests.host.conftest import Home
from tests.mcp.playing import SERVER, site_packages
from tests.runtime.stage import patiently

from fixtures.butler import butler
from fixtures.ledger_entries import list_recent
from fixtures.packages import osqr, write_file, write_json
from paddock import Config, Host, open_host
from paddock.core.action import Action
from paddock.core.call import CallContext, Principal
from paddock.core.errors import Denied, Invalid, NotFound, PluginError
from paddock.core.ids import PrincipalId, RequestId
from paddock.plugins.manage.enable import enable
from paddock.runtime.calls import Question, QuestionAnswer
from paddock.runtime.lifecycle import PluginState


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A home with an enabled butler that never ran."""
    made = Home(tmp_path)
    made.take(butler(tmp_path / "butler"))
    made.changing(lambda plugins: enable(plugins, "butler"))
    return made


def opened(home: Home) -> Any:
    return open_host(Config(home=home.path, start="nothing"))


async def prompted(host: Host, **arguments: Any) -> str:
    found = await patiently(host.plugins.features.get_prompt("butler", "greet", arguments, host.operator_context(None)))
    return found["messages"][0]["content"]["text"]


async def read(host: Host, uri: str) -> str:
    found = await patiently(host.plugins.features.read_resource("butler", uri, host.operator_context(None)))
    return found["contents"][0]["text"]


async def test_the_first_reading_starts_the_server_and_its_lists_are_known_from_then_on(home: Home) -> None:
    async with opened(home) as host:
        before = await host.plugins.features.resources("butler")
        assert (before["known"], before["resources"]) == (False, [])

        assert await read(host, "memo://one") == "read memo://one"
        assert await prompted(host, who="Ann") == "Greet Ann"
        listed = await host.plugins.features.resources("butler")
        assert [one["uri"] for one in listed["resources"]] == ["memo://one"]
        assert [one["uriTemplate"] for one in listed["templates"]] == ["memo://notes/{name}"]
        assert [one["name"] for one in (await host.plugins.features.prompts("butler"))["prompts"]] == ["greet"]


async def test_only_what_the_server_lists_or_a_template_fits_is_read(home: Home) -> None:
    async with opened(home) as host:
        assert await read(host, "memo://notes/today") == "read memo://notes/today"
        for elsewhere in ("memo://two", "memo://notes/a/b", "file:///etc/passwd", "memo://one/../two", "x" * 5_000):
            with pytest.raises(NotFound) as refused:
                await patiently(host.plugins.features.read_resource("butler", elsewhere, host.operator_context(None)))
            assert refused.value.error_code == "resource.not_found"
        with pytest.raises(NotFound, match="no plugin"):
            await host.plugins.features.read_resource("nobody", "memo://one", host.operator_context(None))


async def test_the_arguments_of_a_prompt_are_those_that_it_declares(home: Home) -> None:
    async with opened(home) as host:
        with pytest.raises(Invalid) as refused:
            await patiently(
                host.plugins.features.get_prompt(
                    "butler", "greet", {"how": 3, "loud": "yes"}, host.operator_context(None)
                )
            )
        assert {problem.path for problem in refused.value.problems} == {
            "arguments.who",
            "arguments.how",
            "arguments.loud",
        }
        with pytest.raises(NotFound) as unknown:
            await patiently(host.plugins.features.get_prompt("butler", "shout", {}, host.operator_context(None)))
        assert (unknown.value.error_code, unknown.value.hint) == ("prompt.not_found", "it offers: greet")


async def test_a_new_document_is_read_at_once_and_a_prompt_that_changed_waits_for_a_yes(home: Home) -> None:
    async with opened(home) as host:
        await patiently(host.call("butler.grow", {}))
        async with aclosing(await host.plugins.logs.follow("butler")) as log:
            await patiently(host.call("butler.turn", {}))
            await patiently(until_said(log, "the prompt greet is quarantined"))

        assert await read(host, "memo://two") == "read memo://two"
        assert [one.get("size") for one in (await host.plugins.features.resources("butler"))["resources"]] == [7, None]
        with pytest.raises(Denied) as refused:
            await prompted(host, who="Ann")
        assert refused.value.error_code == "definition.quarantined"
        assert refused.value.action == Action.of("plugin.accept", plugin="butler", name="greet")
        assert (await host.plugins.features.prompts("butler"))["prompts"] == []

        (changed,) = (
            one for one in await host.plugins.definitions.list_definitions("butler") if one["name"] == "greet"
        )
        await host.plugins.definitions.accept("butler", "prompt", "greet", changed["waiting_hash"], "local:tester")
        assert await prompted(host, who="Ann") == "Greet Ann"


async def test_nobody_without_a_right_starts_a_server(home: Home) -> None:
    stranger = CallContext(Principal(PrincipalId("user:eve")), RequestId("req_1"))
    async with opened(home) as host:
        for _ in range(2):  # as long as nobody knows what it offers, and once that is known
            for attempt in (
                lambda: host.call("butler.grow", {}, context=stranger),
                lambda: host.plugins.features.read_resource("butler", "memo://one", stranger),
                lambda: host.plugins.features.get_prompt("butler", "greet", {"who": "Eve"}, stranger),
            ):
                with pytest.raises(Denied):
                    await patiently(attempt())
            assert {status.state for status in host.plugins.processes.statuses()} <= {
                PluginState.DISABLED,
                PluginState.STOPPED,
            }
            assert await read(host, "memo://one") == "read memo://one"
            await host.plugins.lifecycle.disable("butler")
            home.changing(lambda plugins: enable(plugins, "butler"))
            await host.plugins.lifecycle.reconcile()


async def test_a_reading_is_recorded_like_every_call(home: Home) -> None:
    async with opened(home) as host:
        await read(host, "memo://one")
        await prompted(host, who="Ann")
    recorded: list[Any] = []
    home.changing(lambda plugins: recorded.extend(plugins.database.read(lambda tx: list_recent(tx, plugin="butler"))))

    called = [one.data["method"] for one in recorded if one.type == "call.ended"]
    assert sorted(called) == ["prompt:greet", "resource:read"]


async def test_a_program_around_the_host_answers_what_plugins_ask(home: Home) -> None:
    asked: list[Question] = []

    async def answer(question: Question) -> QuestionAnswer:
        asked.append(question)
        return QuestionAnswer("accept", {"colour": "red"})

    async with opened(home) as host:
        said = await patiently(host.call("butler.paint", {}, ask=answer))
        alone = await patiently(host.call("butler.paint", {}))

    assert said["structuredContent"] == {"action": "accept", "content": {"colour": "red"}}
    assert [one.message for one in asked] == ["Which \\x1b[31mcolour?"]
    assert alone["structuredContent"] == {"action": "decline"}


async def test_what_a_manifest_declares_is_listed_and_a_text_is_filled_in_without_a_server(tmp_path: Path) -> None:
    package = osqr(tmp_path / "coach", "Coach")
    declared = json.loads((package / "plugin.yaml").read_text())
    who = {"name": "who", "description": "Whom", "required": True}
    declared["capabilities"] = {
        "resources": [{"uri": "coach://book", "name": "Book", "mimeType": "text/markdown"}],
        "prompts": [
            {"name": "cheer", "arguments": [who], "text": "Cheer {{ who }} up, ${arguments.who}!"},
            {"name": "reflect", "description": "Reflect"},
        ],
    }
    write_json(package / "plugin.yaml", declared)
    write_json(package / "paddock.yaml", {"runtime": {"command": ["python3", "./main.py"]}})
    write_file(package / "main.py", "")
    home = Home(tmp_path)
    home.take(package)
    home.changing(lambda plugins: enable(plugins, "coach"))

    async with opened(home) as host:
        listed = await host.plugins.features.resources("coach")
        assert listed["resources"] == [
            {"uri": "coach://book", "name": "Book", "description": "", "mimeType": "text/markdown"}
        ]
        assert [one["name"] for one in (await host.plugins.features.prompts("coach"))["prompts"]] == [
            "cheer",
            "reflect",
        ]
        cheered = await host.plugins.features.get_prompt(
            "coach", "cheer", {"who": "Ann ${arguments.who}"}, host.operator_context(None)
        )
        assert cheered["messages"][0]["content"]["text"] == "Cheer Ann ${arguments.who} up, Ann ${arguments.who}!"
        with pytest.raises(Invalid):
            await host.plugins.features.get_prompt("coach", "cheer", {}, host.operator_context(None))
        for reading in (
            host.plugins.features.read_resource("coach", "coach://book", host.operator_context(None)),
            host.plugins.features.get_prompt("coach", "reflect", {}, host.operator_context(None)),
        ):
            with pytest.raises(PluginError, match="no server"):
                await reading


@pytest.mark.slow
async def test_a_server_of_the_official_sdk_is_asked_read_and_answered_the_same_way(tmp_path: Path) -> None:
    site = site_packages()
    package = tmp_path / "official"
    runtime = {"command": ["python3", "./server.py", "stdio", "all"], "protocol": "mcp", "env": {"PYTHONPATH": site}}
    manifest = {"paddock": 1, "name": "official", "version": "1.0.0", "description": "A server", "runtime": runtime}
    write_json(package / "paddock.yaml", manifest | {"capabilities": [f"read:fs:{site}"]})
    write_file(package / "server.py", SERVER.read_text())
    home = Home(tmp_path)
    home.take(package)
    home.changing(lambda plugins: enable(plugins, "official"))

    async def answer(question: Question) -> QuestionAnswer:
        return QuestionAnswer("accept", {"colour": "blue"})

    async with opened(home) as host:
        said = await patiently(host.call("official.ask", {}, ask=answer))
        read_one = await patiently(
            host.plugins.features.read_resource("official", "memo://anything", host.operator_context(None))
        )
        prompt = await patiently(
            host.plugins.features.get_prompt("official", "greet", {"who": "Ann"}, host.operator_context(None))
        )
        shown = await host.plugins.inventory.show("official")

    assert said["content"][0]["text"].startswith("accept blue")
    assert read_one["contents"][0]["text"] == "read memo://anything"
    assert prompt["messages"][0]["content"]["text"] == "Greet Ann"
    assert shown["instructions"] == "Be kind to it."
