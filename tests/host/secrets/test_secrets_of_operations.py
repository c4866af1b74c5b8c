"""What an operation needs is asked for before it runs, and looked for only where that operation allows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.daemons import eventually
from tests.fixtures.packages import write_file, write_json
from tests.host.conftest import Home
from tests.host.effects.test_undeclared_effects import recorded, tool

from paddock import Config, open_host
from paddock.core.action import Action
from paddock.core.call import CallContext, Principal
from paddock.core.clock import SystemRandom
from paddock.core.errors import CallerError, PaddockError
from paddock.core.ids import DEFAULT_TENANT, PrincipalId, RequestId
from paddock.core.secret import Secret
from paddock.gate.idempotency.record_queries import list_in_state
from paddock.gate.idempotency.states import EffectState
from paddock.host.host import Host
from paddock.host.secrets.keys import load_secret_keys
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.manage.enable import enable
from paddock.secrets.vault import store_secret
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import open_direct

PROGRAM = """
import os
from paddock_sdk import Host, Plugin
plugin = Plugin({name!r}, {version!r})

@plugin.tool
def read(host: Host):
    return {{"token": host.secrets.get("token").wait(), "shared": host.secrets.get("shared").wait()}}

@plugin.tool
def send(host: Host):
    return read(host)

@plugin.tool
def lose(host: Host):
    os._exit(1)

@plugin.tool
def own(host: Host):
    return read(host)

plugin.run()
"""
SHU = """
class Plugin:
    async def execute(self, params, context, host):
        return {"status": "success", "data": {"key": await host.secrets.get("key")}}
"""
TOOLS = [
    tool("read", "read_only"),
    tool("send", "external_call"),
    tool("own", "read_only"),
    tool("lose", "db_write") | {"recovery": "native_key"},
]
NEEDS = {
    "read": {"secrets": {"token": "system", "shared": "system_or_user"}},
    "send": {"secrets": {"token": "system", "shared": "system_or_user"}},
    "own": {"secrets": {"token": "user"}},
    "lose": {"secrets": {"token": "system"}},
}


class _Unheard:
    def publish(self, event: object) -> None: ...


def keep(home: Home, name: str, value: str, owner: str = "") -> None:
    with open_local_store(home.environment, home.path) as host:
        keys = load_secret_keys(host.directories, host.loaded.settings, home.environment)
        plugins = host.plugins

        def change(tx: Any) -> AuditedTransaction:
            return AuditedTransaction(tx, plugins.tenant, PrincipalId("local:me"), plugins.now(), _Unheard())

        store_secret(plugins.database, keys, SystemRandom(), change, name, owner, Secret(value))


def ann() -> CallContext:
    who = Principal(PrincipalId("user:ann"), roles=frozenset({"member"}))
    return CallContext(who, RequestId("req_1"))


async def refused(host: Host, name: str, params: dict[str, Any] | None = None, **more: Any) -> CallerError:
    with pytest.raises(CallerError) as error:
        await host.call(name, params or {}, **more)
    return error.value


@pytest.mark.req("S-29", "missing ones are named before execution")
@pytest.mark.parametrize("called", ["read", "send"])
async def test_a_call_that_lacks_secrets_is_refused_with_all_of_them_before_its_plugin_hears_of_it(
    home: Home, called: str
) -> None:
    home.install("keeper", program=PROGRAM, tools=TOOLS, capabilities=["host:secrets"], operation_auth=NEEDS)
    async with open_host(Config(home=home.path, environ={}, start="nothing")) as host:
        error = await refused(host, f"keeper.{called}", context=ann())
        access = host.calls.callable_access
        target = access.catalogue(DEFAULT_TENANT).find_callable("keeper", called)
        tried = (await access.dry_run(target, {}, ann())).to_json()
    assert (tried["would"], tried["missing_secrets"]) == ("be_rejected", ["shared", "token"])
    assert (error.error_code, error.details["missing"]) == ("missing_secrets", ["shared", "token"])
    assert error.action == Action.of("secret.set", name="shared")
    (ended,) = recorded(home, "call.ended")
    assert (ended["status"], ended["error_code"]) == ("refused", "missing_secrets")
    assert not recorded(home, "approval.requested"), "nobody was asked about what cannot be"
    assert not recorded(home, "call.started", "plugin.spawned"), "and its plugin was not started for it"


@pytest.mark.req("S-12", "the system's only where declared")
@pytest.mark.req("S-29", "scopes")
async def test_once_they_are_set_it_runs_and_each_operation_gets_them_from_where_it_allows(home: Home) -> None:
    home.install("keeper", program=PROGRAM, tools=TOOLS, capabilities=["host:secrets"], operation_auth=NEEDS)
    keep(home, "token", "of all")
    keep(home, "shared", "also of all")
    async with open_host(Config(home=home.path, environ={})) as host:
        first = await host.call("keeper.read", {}, context=ann())
        lacks = await refused(host, "keeper.own", context=ann())
        keep(home, "token", "Ann's", owner="user:ann")
        keep(home, "shared", "Ann's too", owner="user:ann")
        again, own = await host.call("keeper.read", {}, context=ann()), await host.call("keeper.own", {}, context=ann())
        other = await refused(host, "keeper.own")
    assert first == {"token": "of all", "shared": "also of all"}
    assert again == {"token": "of all", "shared": "Ann's too"}
    assert own == {"token": "Ann's", "shared": "Ann's too"}
    assert (lacks.details["missing"], other.details["missing"]) == (["token"], ["token"])
    assert lacks.action == Action.of("secret.set", name="token", user="ann")
    used = recorded(home, "secret.used")
    assert all(one["call_id"] for one in used)
    assert len(used) == len({(one["call_id"], one["secret"]) for one in used}) == 6


async def test_what_has_happened_is_told_again_though_its_secret_is_gone(home: Home) -> None:
    write_file(home.path / "policies" / "unasked.cedar", UNASKED).chmod(0o600)
    home.install("keeper", program=PROGRAM, tools=TOOLS, capabilities=["host:secrets"], operation_auth=NEEDS)
    keep(home, "token", "once")
    keep(home, "shared", "once")
    async with open_host(Config(home=home.path, environ={})) as host:
        made = await host.call("keeper.send", {}, idempotency_key="k1")
        with open_local_store(home.environment, home.path) as command:
            command.plugins.database.write(lambda tx: tx.execute("DELETE FROM secrets"))
        told = await host.call("keeper.send", {}, idempotency_key="k1")
        another = await refused(host, "keeper.send", idempotency_key="k2")
        keep(home, "token", "again")
        keep(home, "shared", "again")
        assert (await host.call("keeper.send", {}, idempotency_key="k2"))["token"] == "again", "the key was free"
    assert told == made
    assert another.error_code == "missing_secrets"


async def test_a_lost_call_is_not_made_again_without_its_secrets(home: Home) -> None:
    home.install("keeper", program=PROGRAM, tools=TOOLS, capabilities=["host:secrets"], operation_auth=NEEDS)
    keep(home, "token", "x")
    async with open_host(Config(home=home.path, environ={}, role="command", start="nothing")) as host:
        with pytest.raises(PaddockError):
            await host.call("keeper.lose", {})
    started = len(recorded(home, "plugin.spawned"))
    with open_direct(home.path / "data" / "paddock.db") as database:
        database.write(lambda tx: tx.execute("DELETE FROM secrets"))

        def reasons() -> list[str]:
            rows = database.read(lambda tx: tx.all("SELECT reason FROM queue WHERE kind = 'effect.recover'"))
            return [row["reason"] for row in rows if row["reason"]]

        async with open_host(Config(home=home.path, environ={}, start="nothing")):
            await asyncio.to_thread(eventually, lambda: bool(reasons()), "the host has looked")
        assert reasons() == ["missing_secrets"]
        assert len(database.read(lambda tx: list_in_state(tx, EffectState.IN_DOUBT))) == 1
    assert len(recorded(home, "plugin.spawned")) == started


UNASKED = """
@id("outside-calls-are-confirmed") @text("Nobody is asked here.")
permit (principal, action in Action::"anyCall", resource) when { resource.effects.contains(Effect::"external_call") };
"""


@pytest.mark.req("S-28", "op_auth")
@pytest.mark.req("S-29", "scopes")
async def test_of_a_shu_plugin_the_parameter_op_says_which_operation_it_is(tmp_path: Path) -> None:
    home, folder = Home(tmp_path), tmp_path / "package"
    auth = {
        "ingest": {"secrets": {"key": {"allowed_scope": "user"}}},
        "digest": {"secrets": {"key": {"allowed_scope": "system"}}},
    }
    op = {"type": "object", "properties": {"op": {"type": "string", "default": "digest"}}}
    about = {"name": "ours", "version": "1.0.0", "entrypoints": {"ours": "ours.plugin:Plugin"}}
    more = {"capabilities": ["secrets"], "op_auth": auth, "params_schema": op}
    write_json(folder / "manifest.yaml", about | more)
    write_file(folder / "ours" / "__init__.py", "")
    write_file(folder / "ours" / "plugin.py", SHU)
    home.take(folder)
    home.changing(lambda plugins: enable(plugins, "ours"))
    keep(home, "key", "of all")
    async with open_host(Config(home=home.path, environ={})) as host:
        lacks = await refused(host, "ours", {"op": "ingest"}, context=ann())
        keep(home, "key", "Ann's", owner="user:ann")
        said = {
            asked: (await host.call("ours", {"op": asked} if asked else {}, context=ann()))["data"]["key"]
            for asked in ("ingest", "digest", "", "list")
        }
    assert (lacks.error_code, lacks.details["operation"]) == ("missing_secrets", "ingest")
    assert said == {"ingest": "Ann's", "digest": "of all", "": "of all", "list": None}
