"""A plugin's transactions while the plugin itself asks for much else."""

from __future__ import annotations

import asyncio

from tests.host.conftest import Home

from paddock import Config, open_host

PROGRAM = """
from paddock_sdk import Host, HostRefused, Plugin
plugin = Plugin({name!r}, {version!r}, capabilities_used=["storage:write"])

def end_of(answer):
    try:
        answer.wait()
    except HostRefused as refused:
        return refused.code
    return "fine"

@plugin.tool
def crowd(host: Host):
    host.sql.exec("CREATE TABLE t (a)").wait()
    begun = host.sql.ask("begin", {{}}).wait()
    first = host.sql.ask("exec", {{"sql": "INSERT INTO t VALUES (0)", **begun}})
    others = [host.sql.exec("INSERT INTO t VALUES (?)", [n]) for n in range(1, 41)]
    more = [host.sql.ask("exec", {{"sql": "INSERT INTO t VALUES (100)", **begun}}) for _ in range(3)]
    committed = host.sql.ask("commit", begun)
    ends = [end_of(answer) for answer in [first, *more, committed]]
    crowded = [end_of(answer) for answer in others]
    rows = host.sql.query("SELECT count(*) AS n FROM t").wait().rows
    return {{"ends": ends, "crowded": crowded.count("fine"), "rows": rows[0]["n"]}}

plugin.run()
"""
CROWD = {"name": "crowd", "description": "c", "effects": ["db_write"], "input_schema": {"type": "object"}}


async def test_a_transaction_comes_to_its_end_however_many_of_the_plugins_statements_wait_for_that(home: Home) -> None:
    home.install("crowd", program=PROGRAM, tools=[CROWD], capabilities=["storage:write"])
    async with open_host(Config(home=home.path, environ={})) as host, asyncio.timeout(60):
        told = await host.call("crowd.crowd", {})
    assert told["ends"] == ["fine"] * 5
    assert told["rows"] == told["crowded"] + 4
