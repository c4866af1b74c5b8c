"""The host as a whole, from Python: installed plugins in real cages, called by name."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

import pytest
from tests.host.conftest import PROGRAM, SAY, Home
from tests.runtime.stage import patiently

from fixtures.ledger_entries import list_recent
from paddock import Config, Host, open_host
from paddock.core.action import Action
from paddock.core.errors import Conflict, Invalid, NotFound, PluginError, StoreUnavailable, Unavailable
from paddock.plugins.dialects.envelope import OutputInvalid
from paddock.plugins.manage.enable import disable
from paddock.plugins.manage.remove import uninstall
from paddock.store.database import open_direct

TEXT = {"text": "hello"}


def opened(home: Home, **fields: Any) -> AbstractAsyncContextManager[Host]:
    return open_host(Config(home=home.path, environ={}, **fields))


async def state(host: Host, name: str = "parrot") -> str:
    return next(
        status.state.value for status in await host.plugins.processes.wait_settled() if status.key.plugin == name
    )


async def test_enabled_plugins_run_when_the_host_opens_and_are_gone_when_it_closes(home: Home) -> None:
    home.install()
    home.install("second")
    home.changing(lambda plugins: disable(plugins, "second"))
    async with opened(home) as host:
        assert await host.call("parrot.say", TEXT) == {"text": "hello", "version": "1.0.0", "config": {}}
        assert [status.key.plugin for status in host.plugins.processes.statuses()] == ["parrot"]
        with pytest.raises(NotFound):
            await host.call("second.say", TEXT)
    with open_direct(home.path / "data" / "paddock.db") as database:
        entries = database.read(list_recent)
    kinds = {entry.type for entry in entries}
    assert {"plugin.spawned", "plugin.initialized", "call.ended"} <= kinds
    (ended,) = (entry.data for entry in entries if entry.type == "call.ended")
    assert ended["stands_for"] == ["plugin.method_called", "plugin.method_returned"]  # reading is one entry
    assert {"plugin.exited", "plugin.stopped"} <= kinds


@pytest.mark.req("K-03", "nothing unregistered is called")
async def test_code_that_was_not_installed_is_neither_listed_nor_called_wherever_it_lies(home: Home) -> None:
    home.install()
    trees = home.path / "data" / "plugins"
    stray = trees / "stray" / "1.0.0"
    shutil.copytree(trees / "parrot" / "1.0.0", stray)
    for file in (stray / "paddock.yaml", stray / "main.py"):
        file.chmod(0o600)
        file.write_text(file.read_text().replace("parrot", "stray"))
    async with opened(home) as host:
        assert (await host.call("parrot.say", TEXT))["text"] == "hello"
        for name in ("stray.say", "stray", str(stray), f"{stray}/main.py", "main.say"):
            with pytest.raises(NotFound):
                await host.call(name, TEXT)
        assert host.callables() == ("parrot.say",)
        assert [one["name"] for one in await host.plugins.inventory.list_all()] == ["parrot"]
        assert [status.key.plugin for status in host.plugins.processes.statuses()] == ["parrot"]


async def test_an_error_raised_around_a_call_reaches_the_caller_as_it_is(home: Home) -> None:
    home.install()
    with pytest.raises(NotFound) as unknown:
        async with opened(home) as host:
            await host.call("parrot.sing", TEXT)
    assert "parrot.say" in unknown.value.hint


@pytest.mark.req("G-32", "method schemas")
async def test_parameters_and_answers_are_checked_against_what_the_plugin_declares(home: Home) -> None:
    liar = PROGRAM.replace('"text": params["text"], "version"', '"words": params["text"], "version"')
    home.install("liar", program=liar)
    async with opened(home) as host:
        with pytest.raises(Invalid) as wrong:
            await host.call("liar.say", {"text": 5})
        assert [problem.path for problem in wrong.value.problems] == ["text"]
        with pytest.raises(OutputInvalid, match="something else than it declares"):
            await host.call("liar.say", TEXT)


@pytest.mark.slow
async def test_many_that_are_enabled_at_the_same_time_are_all_there_afterwards(home: Home) -> None:
    names = [f"parrot-{number}" for number in range(8)]
    for name in names:
        home.install(name)
        home.changing(partial(disable, name=name))
    async with opened(home) as host:
        done = await patiently(asyncio.gather(*(host.plugins.lifecycle.enable(name) for name in names)))
        assert [one["state"] for one in done] == ["running"] * len(names)
        for name in names:
            assert (await host.call(f"{name}.say", TEXT))["text"] == "hello"


async def test_a_setting_that_a_command_changes_reaches_the_running_plugin(home: Home) -> None:
    schema = {"type": "object", "properties": {"colour": {"type": "string", "default": "grey"}}}
    home.install(system_config_schema=schema)
    async with opened(home) as host:
        assert (await host.call("parrot.say", TEXT))["config"] == {"colour": "grey"}
        local = home.path / "local.toml"
        local.write_text(local.read_text() + 'colour = "green"\n')
        await host.plugins.lifecycle.reconcile()
        assert (await host.call("parrot.say", TEXT))["config"] == {"colour": "green"}


async def test_a_plugin_that_a_command_upgrades_is_replaced_and_one_it_removes_is_ended(home: Home) -> None:
    home.install()
    async with opened(home) as host:
        first = (await host.plugins.processes.wait_settled())[0]
        home.install(version="1.1.0")
        await host.plugins.lifecycle.reconcile()
        assert (await host.call("parrot.say", TEXT))["version"] == "1.1.0"
        home.pin("parrot", "1.0.0")
        await host.plugins.lifecycle.reconcile()
        assert (await host.call("parrot.say", TEXT))["version"] == "1.0.0"
        assert first.pid
        home.changing(lambda plugins: uninstall(plugins, "parrot", force=True))
        await host.plugins.lifecycle.reconcile()
        with pytest.raises(NotFound):
            await host.call("parrot.say", TEXT)


async def test_what_a_plugin_logs_can_be_read_later_and_without_the_host(home: Home) -> None:
    home.install()
    async with opened(home) as host:
        await host.call("parrot.say", {"text": "listen"})
        lines = await host.plugins.logs.read_last("parrot")
    assert "listen" in lines[-1]["line"]
    assert (home.path / "state" / "logs" / "parrot.log").stat().st_mode & 0o777 == 0o600


@pytest.mark.req("O-10", "the manifest's hash at every start")
async def test_a_plugin_whose_files_were_changed_is_not_started_and_the_others_are(home: Home) -> None:
    home.install()
    home.install("second")
    program = home.path / "data" / "plugins" / "parrot" / "1.0.0" / "main.py"
    program.chmod(0o644)
    program.write_text("print('evil')")
    async with opened(home) as host:
        assert await host.call("second.say", TEXT)
        assert await state(host) == "failed"
        with pytest.raises(Unavailable, match="not the ones you consented to") as refused:
            await host.call("parrot.say", TEXT)
        assert refused.value.action == Action.of("plugin.repair", plugin="parrot")
        shown: Any = await host.plugins.inventory.show("parrot")
        assert shown["runtime"]["error_code"] == "plugin.modified"


async def test_a_host_opened_for_one_call_starts_only_what_is_called(home: Home) -> None:
    home.install()
    home.install("second")
    async with opened(home, role="command", start="nothing") as host:
        assert await host.call("parrot.say", TEXT)
        assert {status.key.plugin: status.state.value for status in host.plugins.processes.statuses()} == {
            "parrot": "running",
            "second": "disabled",
        }


async def test_a_second_daemon_is_refused_and_a_command_works_beside_the_first(home: Home) -> None:
    home.install()
    async with opened(home) as host:
        assert await host.call("parrot.say", TEXT)
        with pytest.raises(StoreUnavailable) as refused:
            async with opened(home):
                pass
        assert refused.value.error_code == "store.locked"
        async with opened(home, role="command", start="nothing") as beside:
            assert await beside.call("parrot.say", TEXT)


@pytest.mark.req("G-30", "invalid manifest at startup")
async def test_a_manifest_that_no_longer_holds_leaves_the_plugin_out_and_says_so(home: Home) -> None:
    home.install()
    home.install("second")
    with open_direct(home.path / "data" / "paddock.db") as database:
        database.write(
            lambda tx: tx.execute("UPDATE plugin_versions SET manifest = ? WHERE plugin = ?", ('{"name": 7}', "parrot"))
        )
    async with opened(home) as host:
        assert await host.call("second.say", TEXT)
        with pytest.raises((NotFound, PluginError)):
            await host.call("parrot.say", TEXT)
        runtime: Any = next(
            row["runtime"] for row in await host.plugins.inventory.list_all() if row["name"] == "parrot"
        )
        assert (runtime["state"], runtime["reason"][:16]) == ("disabled", "invalid manifest")


@pytest.mark.req("G-29", "plugin.config_validation_failed")
async def test_settings_that_do_not_fit_keep_a_plugin_from_starting_and_are_recorded_without_their_values(
    home: Home,
) -> None:
    home.install(system_config_schema={"type": "object", "properties": {"token": {"type": "string", "minLength": 9}}})
    local = home.path / "local.toml"
    local.write_text(local.read_text() + 'token = "hush"\n')
    async with opened(home) as host:
        assert await state(host) == "failed"
    with open_direct(home.path / "data" / "paddock.db") as database:
        found = database.read(lambda tx: list_recent(tx, event_type="plugin.config_validation_failed"))
    assert (found[0].data["name"], found[0].data["side"]) == ("parrot", "system")
    assert found[0].data["errors"]
    assert "hush" not in str(found[0].data)


async def test_settings_that_a_running_plugin_cannot_use_are_told_once_and_not_at_every_look(home: Home) -> None:
    home.install(system_config_schema={"type": "object", "properties": {"token": {"type": "string", "minLength": 9}}})
    local = home.path / "local.toml"
    async with opened(home) as host:
        await host.plugins.processes.wait_settled()
        local.write_text(local.read_text() + 'token = "hush"\n')
        for _ in range(3):
            await patiently(host.plugins.lifecycle.reconcile())
        lines = [entry["line"] for entry in await host.plugins.logs.read_last("parrot", lines=100)]
        assert len([line for line in lines if "the new configuration is not used" in line]) == 1
        assert await host.call("parrot.say", TEXT)
    with open_direct(home.path / "data" / "paddock.db") as database:
        assert not database.read(lambda tx: list_recent(tx, event_type="plugin.config_validation_failed"))


async def test_enabling_and_disabling_at_the_same_time_ends_in_one_or_the_other_and_hangs_neither(home: Home) -> None:
    home.install()
    async with opened(home) as host:
        await host.plugins.processes.wait_settled()
        for _ in range(5):
            ended = await patiently(
                asyncio.gather(
                    host.plugins.lifecycle.disable("parrot"),
                    host.plugins.lifecycle.enable("parrot"),
                    return_exceptions=True,
                )
            )
            assert all(isinstance(one, dict | Conflict) for one in ended), ended
        await patiently(host.plugins.lifecycle.enable("parrot"))
        assert await host.call("parrot.say", TEXT)


@pytest.mark.req("G-11", "the second of two that collide fails")
@pytest.mark.req("G-29", "plugin.tool_name_collision")
async def test_the_second_of_two_plugins_with_a_callable_of_one_name_is_not_enabled(home: Home) -> None:
    home.install("mail.send", tools=[SAY | {"name": "say"}])
    with pytest.raises(Conflict) as refused:
        home.install("mail", methods=[{"name": "send.say", "effects": ["read_only"]}], tools=[])
    assert refused.value.error_code == "tool_name_collision"
    async with opened(home) as host:
        assert (await host.call("mail.send.say", TEXT))["text"] == TEXT["text"]
        assert {row["name"]: row["state"] for row in await host.plugins.inventory.list_all()} == {
            "mail": "disabled",
            "mail.send": "enabled",
        }
    with open_direct(home.path / "data" / "paddock.db") as database:
        (found,) = database.read(lambda tx: list_recent(tx, event_type="plugin.tool_name_collision"))
    told = {name: found.data[name] for name in ("first", "second", "tool")}
    assert told == {"first": "mail.send", "second": "mail", "tool": "mail.send.say"}


async def test_a_plugin_that_is_upgraded_to_another_ones_name_for_a_callable_takes_no_call_from_it(home: Home) -> None:
    home.install("mail.send", tools=[SAY | {"name": "say"}])
    home.install("mail", methods=[{"name": "post.say", "effects": ["read_only"]}], tools=[])
    home.upgrade("mail", "1.1.0", methods=[{"name": "send.say", "effects": ["read_only"]}], tools=[])
    async with opened(home) as host:
        with pytest.raises(Conflict, match="both") as unclear:
            await host.call("mail.send.say", TEXT)
        assert "mail.send" in unclear.value.message
