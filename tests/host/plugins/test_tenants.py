"""Plugins of several tenants: one installation, and for each tenant a process and everything it keeps of its own."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.host.conftest import Home
from tests.runtime.stage import patiently

from fixtures.ledger_entries import list_recent
from paddock import Config, Host, open_host
from paddock.config.local_file import set_system_value
from paddock.core.call import Principal
from paddock.core.errors import Conflict, Invalid, NeedsConsent, NotFound
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, Tenant
from paddock.manifest.capability import parse_capability
from paddock.plugins.manage.enable import enable, find_grant_state
from paddock.plugins.manage.remove import uninstall
from paddock.plugins.store.store import PluginStore
from paddock.principals.people import add_person
from paddock.principals.tenants import add_tenant
from paddock.runtime.lifecycle import PluginState
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Transaction, open_direct

ACME = Tenant("acme")
PROGRAM = """
import os
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r}, capabilities_used=["storage:write", "host:storage", "host:cache"],
                notifications=["diary.kept"])

@plugin.tool
def keep(host: Host, text: str):
    host.sql.exec("CREATE TABLE IF NOT EXISTS kept (line TEXT)").wait()
    host.sql.exec("INSERT INTO kept VALUES (?)", [text]).wait()
    host.keyvalue.put("last", text).wait()
    host.cache.set("last", text).wait()
    with open(plugin.config["folder"] + "/diary.txt", "a") as diary:
        diary.write(text)
    plugin.log.warning("kept", text=text)
    plugin.notify("diary.kept", {{"text": text}})
    return {{"pid": os.getpid()}}

@plugin.tool
def recall(host: Host):
    tables = host.sql.schema().wait()
    lines = [row["line"] for row in host.sql.query("SELECT line FROM kept").wait().rows] if tables else []
    try:
        diary = open(plugin.config["folder"] + "/diary.txt").read()
    except FileNotFoundError:
        diary = ""
    return {{"lines": lines, "value": host.keyvalue.get("last").wait(), "cached": host.cache.get("last").wait(),
            "diary": diary, "token": plugin.config.get("token")}}

plugin.run()
"""
ANY = {"type": "object"}
TOOLS = [
    {"name": "keep", "description": "k", "effects": ["db_write"], "input_schema": ANY},
    {"name": "recall", "description": "r", "effects": ["read_only"], "input_schema": ANY},
]
GRANTED = ["storage:write", "host:storage", "host:cache", "write:fs:config:/memory"]
CONFIG: dict[str, Any] = {
    "notifications": ["diary.kept"],
    "config_schema": {
        "type": "object",
        "properties": {"folder": {"type": "string", "default": "config:/memory"}},
    },
    "system_config_schema": {"type": "object", "properties": {"token": {"type": "string"}}},
    "knobs": {
        "folder": {
            "label": "Folder",
            "type": "path",
            "prefixes": ["config:"],
            "default": "config:/memory",
            "binds_to": "config.folder",
        }
    },
}


class Quiet:
    """Nobody reads the record here."""

    def publish(self, event: object) -> None: ...


def with_acme(home: Home) -> None:
    """A second tenant, and Bob in it."""

    def unit(tx: Transaction) -> None:
        change = AuditedTransaction(tx, DEFAULT_TENANT, PrincipalId("local:ada"), "2026-03-01T12:00:00+00:00", Quiet())
        add_tenant(change, ACME)
        add_person(AuditedTransaction(tx, ACME, change.by, change.now, Quiet()), "bob")

    home.changing(lambda plugins: plugins.database.write(unit))


def with_diary(home: Home) -> None:
    home.install("diary", program=PROGRAM, tools=TOOLS, capabilities=GRANTED, **CONFIG)
    with_acme(home)
    home.changing(lambda plugins: enable(plugins.for_tenant(ACME), "diary", map(parse_capability, GRANTED)))


async def in_acme(host: Host) -> Principal:
    return await host.principal("acme/local:ada")


def recorded(home: Home, tenant: str) -> list[dict[str, Any]]:
    with open_direct(home.path / "data" / "paddock.db") as database:
        return [entry.data for entry in database.read(lambda tx: list_recent(tx, tenant=tenant))]


@pytest.mark.req("B-22", "events")
@pytest.mark.req("B-22", "storage")
@pytest.mark.req("B-22", "caches")
async def test_two_tenants_have_two_processes_of_one_plugin_and_share_nothing_that_it_keeps(home: Home) -> None:
    with_diary(home)
    home.changing(lambda plugins: set_system_value(plugins.config_file, "diary", "token", "ours"))
    async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(60):
        here, acme = await host.principal("local:ada"), await in_acme(host)
        notified = await host.plugins.processes.follow_notifications("diary", ACME)
        ours = await host.call("diary.keep", {"text": "our secret"}, principal=here, idempotency_key="k1")
        nothing = await host.call("diary.recall", {}, principal=acme)
        theirs = await host.call("diary.keep", {"text": "their secret"}, principal=acme, idempotency_key="k1")
        told = await anext(notified)
        know = await host.call("diary.recall", {}), await host.call("diary.recall", {}, principal=acme)
        logs = [await host.plugins.logs.read_last("diary", tenant=tenant) for tenant in (DEFAULT_TENANT, ACME)]
        pids = {status.key.tenant: status.pid for status in host.plugins.processes.statuses()}

    assert ours["pid"] and theirs["pid"] and pids[DEFAULT_TENANT] != pids[ACME]
    assert nothing == {"lines": [], "value": None, "cached": None, "diary": "", "token": None}
    assert know[0] == {
        "lines": ["our secret"],
        **dict.fromkeys(("value", "cached", "diary"), "our secret"),
        "token": "ours",
    }
    assert know[1] == {
        "lines": ["their secret"],
        **dict.fromkeys(("value", "cached", "diary"), "their secret"),
        "token": None,
    }
    assert told["params"] == {"text": "their secret"}
    assert ["our secret" in json.dumps(log) for log in logs] == [True, False]
    assert ["their secret" in json.dumps(log) for log in logs] == [False, True]
    called = {
        tenant: {entry["principal"] for entry in recorded(home, tenant) if entry["type"] == "call.ended"}
        for tenant in ("default", "acme")
    }
    assert called == {"default": {"local:ada", "local:operator"}, "acme": {"local:ada"}}


@pytest.mark.req("K-08", "per tenant, operator and key")
@pytest.mark.req("B-22", "idempotent results")
async def test_a_key_in_one_tenant_says_nothing_of_the_same_key_in_another(home: Home) -> None:
    with_diary(home)
    async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(60):
        here, acme = await host.principal("local:ada"), await in_acme(host)

        def keep(text: str, who: Principal) -> Any:
            return host.call("diary.keep", {"text": text}, principal=who, idempotency_key="k1")

        first = [await keep("ours", here), await keep("theirs", acme)]
        again = [await keep("ours", here), await keep("theirs", acme)]
        with pytest.raises(Conflict):
            await keep("ours", acme)
        kept = [(await host.call("diary.recall", {}, principal=one))["lines"] for one in (here, acme)]

    assert first == again
    assert kept == [["ours"], ["theirs"]]


async def test_the_plugins_of_another_tenant_start_at_their_first_call(home: Home) -> None:
    home.install()
    with_acme(home)
    home.changing(lambda plugins: enable(plugins.for_tenant(ACME), "parrot"))
    async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(60):
        states = {status.key.tenant: status.state for status in await host.plugins.processes.wait_settled()}
        bob = await host.principal("acme/user:bob")
        answer = await host.call("parrot.say", {"text": "hello"}, principal=bob)
        after = {status.key.tenant: status.state for status in host.plugins.processes.statuses()}

    assert states == {"default": PluginState.RUNNING, "acme": PluginState.DISABLED}
    assert answer["text"] == "hello"
    assert after == {"default": PluginState.RUNNING, "acme": PluginState.RUNNING}


async def test_whoever_names_a_plugin_of_another_tenant_hears_what_they_hear_of_one_that_does_not_exist(
    home: Home,
) -> None:
    home.install()
    with_acme(home)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        bob = await host.principal("acme/user:bob")
        context = host.call_context(bob)

        async def heard(name: str) -> list[tuple[str, str, str]]:
            found: list[tuple[str, str, str]] = []
            for attempt in (
                lambda: host.call(f"{name}.say", {"text": "x"}, principal=bob),
                lambda: host.call(name, {}, principal=bob),
                lambda: host.plugins.features.read_resource(name, "file:///x", context),
                lambda: host.plugins.features.get_prompt(name, "p", {}, context),
            ):
                with pytest.raises(NotFound) as refused:
                    await patiently(attempt())
                error = refused.value
                found.append((error.error_code, error.message.replace(name, "X"), error.hint.replace(name, "X")))
            with pytest.raises(NotFound) as refused:
                host.calls.registry.start(name, "say", {"text": "x"}, context)
            return [*found, (refused.value.error_code, refused.value.message.replace(name, "X"), "")]

        assert await heard("parrot") == await heard("parrax")
        assert host.callables(ACME) == ()
        assert host.callables() == ("parrot.say",)
    assert recorded(home, "acme") == []


async def test_a_tenant_says_yes_to_what_a_plugin_asks_for_by_itself(home: Home) -> None:
    home.install("diary", program=PROGRAM, tools=TOOLS, capabilities=GRANTED, **CONFIG)
    with_acme(home)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(60):
        with pytest.raises(NeedsConsent) as refused:
            await host.plugins.lifecycle.enable("diary", tenant=ACME)
        with pytest.raises(NeedsConsent):
            await host.plugins.lifecycle.enable("diary", tenant=ACME, acknowledged=[parse_capability("storage:write")])
        enabled = await host.plugins.lifecycle.enable("diary", tenant=ACME, acknowledged=map(parse_capability, GRANTED))
        listed = [(await host.plugins.inventory.list_all(tenant))[0]["state"] for tenant in (DEFAULT_TENANT, ACME)]
        await host.plugins.lifecycle.disable("diary", ACME)
        after = [(await host.plugins.inventory.list_all(tenant))[0]["state"] for tenant in (DEFAULT_TENANT, ACME)]

    assert refused.value.details["capabilities"] == GRANTED
    assert enabled["state"] == "running"
    assert (listed, after) == (["enabled", "enabled"], ["enabled", "disabled"])
    told = [entry["type"] for entry in recorded(home, "acme") if entry["type"] in ("plugin.granted", "plugin.enabled")]
    assert sorted(told) == ["plugin.enabled", "plugin.granted"]


SECRET: dict[str, Any] = {"capabilities": ["host:secrets"], "secrets": ["key"]}


def say_yes(plugins: PluginStore, name: str) -> None:
    """Enable it with a yes to all that it asks for."""
    enable(plugins, name, plugins.database.read(lambda tx: find_grant_state(tx, plugins, name)).missing_capabilities())


@pytest.mark.parametrize(
    ("before", "more", "asked"),
    [
        ({}, {"capabilities": ["net:example.test:443"]}, "net:example.test:443"),
        (SECRET | {"secret_hosts": {"key": ["example.test:443"]}}, SECRET, "secret:key"),
        (SECRET, SECRET | {"secrets": ["key", "other"]}, "secret:other"),
    ],
)
async def test_a_new_version_that_asks_for_more_waits_for_the_yes_of_each_tenant(
    home: Home, before: dict[str, Any], more: dict[str, Any], asked: str
) -> None:
    home.install(**before)
    with_acme(home)
    home.changing(lambda plugins: say_yes(plugins.for_tenant(ACME), "parrot"))
    home.upgrade("parrot", "2.0.0", **more)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(60):
        acme = await in_acme(host)
        ours = await host.call("parrot.say", {"text": "x"})
        with pytest.raises(NotFound) as refused:
            await host.call("parrot.say", {"text": "x"}, principal=acme)
        shown: Any = await host.plugins.inventory.show("parrot", ACME)
        await host.plugins.lifecycle.enable("parrot", tenant=ACME, acknowledged=[parse_capability(asked)])
        theirs = await host.call("parrot.say", {"text": "x"}, principal=acme)

    assert f"{asked}, which acme has not granted" in refused.value.message
    grants = {"plugin": "parrot", "tenant": "acme", "grants": [asked]}
    assert shown["runtime"]["action"] == {"kind": "plugin.enable", "arguments": grants}
    assert (ours["version"], theirs["version"]) == ("2.0.0", "2.0.0")


async def test_a_grant_that_would_start_an_enabled_plugin_is_checked_as_enabling_it_is(home: Home) -> None:
    asked = parse_capability("net:example.test:443")
    home.install()
    with_acme(home)
    home.changing(lambda plugins: enable(plugins.for_tenant(ACME), "parrot"))
    home.upgrade("parrot", "2.0.0", capabilities=[str(asked)], runtime={"command": ["no-such-program"]})
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(60):
        shown = await host.plugins.lifecycle.grant_state("parrot", ACME)
        assert (shown["enabled"], shown["missing"]) == (True, [str(asked)])
        with pytest.raises(Invalid) as refused:
            await host.plugins.lifecycle.grant(
                "parrot", [asked], digest=shown["digest"], tenant=ACME, by=host.operator_context(None).principal.id
            )
        after = await host.plugins.lifecycle.grant_state("parrot", ACME)

    assert [problem.code for problem in refused.value.problems] == ["program_missing"]
    assert after["missing"] == [str(asked)]


@pytest.mark.req("B-22", "calls")
async def test_a_call_and_what_became_of_it_are_found_within_its_tenant_alone(home: Home) -> None:
    home.install()
    with_acme(home)
    home.changing(lambda plugins: enable(plugins.for_tenant(ACME), "parrot"))
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(60):
        context = host.call_context(await host.principal("acme/user:bob"))
        live = host.calls.registry.start("parrot", "say", {"text": "x"}, context)
        await live.wait()

        assert host.calls.registry.find(live.id, ACME) is live
        assert [call.id for call in host.calls.registry.recent(10, ACME)] == [live.id]
        assert host.calls.registry.recent(10, DEFAULT_TENANT) == []
        with pytest.raises(NotFound):
            host.calls.registry.find(live.id, DEFAULT_TENANT)


@pytest.mark.req("G-51", "tables dropped")
async def test_uninstalling_drops_what_a_plugin_kept_for_every_tenant(home: Home) -> None:
    with_diary(home)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host, asyncio.timeout(60):
        acme = await in_acme(host)
        await host.call("diary.keep", {"text": "their secret"}, principal=acme)
        home.changing(
            lambda plugins: set_system_value(plugins.for_tenant(ACME).config_file, "diary", "token", "their secret")
        )
        await asyncio.to_thread(home.changing, lambda plugins: uninstall(plugins, "diary"))
        await host.plugins.lifecycle.reconcile()
        with pytest.raises(NotFound):
            await host.call("diary.keep", {"text": "x"}, principal=acme)

    assert [str(path) for path in kept(home.path) if b"their secret" in path.read_bytes()] == []


def kept(folder: Path) -> list[Path]:
    """Every file but the record, which keeps what it was told of."""
    return [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("paddock.db")]
