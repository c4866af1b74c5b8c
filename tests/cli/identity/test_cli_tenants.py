"""One plugin for two tenants, as its operator types it: with a daemon and without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon
from fixtures.packages import write_file, write_json

PROGRAM = """
from paddock_sdk import Host, Plugin
plugin = Plugin("diary", "1.0.0", capabilities_used=["host:storage"])

@plugin.tool
def keep(host: Host, text: str):
    host.keyvalue.put("last", text).wait()
    plugin.log.warning("kept", text=text)
    return {"token": plugin.config.get("token")}

@plugin.tool
def recall(host: Host):
    return {"text": host.keyvalue.get("last").wait()}

plugin.run()
"""


def diary(folder: Path) -> Path:
    about = {
        "paddock": 1,
        "name": "diary",
        "version": "1.0.0",
        "description": "Keeps a text",
        "runtime": {"command": ["python3", "./main.py"]},
        "capabilities": ["host:storage"],
        "system_config_schema": {"type": "object", "properties": {"token": {"type": "string"}}},
        "tools": [
            {"name": "keep", "description": "k", "effects": ["db_write"], "input_schema": {"type": "object"}},
            {"name": "recall", "description": "r", "effects": ["read_only"], "input_schema": {"type": "object"}},
        ],
    }
    write_json(folder / "paddock.yaml", about)
    write_file(folder / "main.py", PROGRAM)
    return folder


@contextmanager
def perhaps_served(paddock: Paddock, served: bool) -> Iterator[None]:
    if not served:
        yield
        return
    with daemon(paddock):
        yield


@pytest.mark.parametrize("served", [pytest.param(False, marks=pytest.mark.slow), True], ids=["alone", "served"])
def test_a_tenant_is_made_a_plugin_is_granted_to_it_and_neither_sees_the_others(
    paddock: Paddock, source: Path, served: bool
) -> None:
    paddock.quickly("plugin", "install", diary(source / "diary"), "--yes")
    paddock.quickly("tenant", "add", "acme")
    paddock.quickly("user", "add", "bob", "--tenant", "acme")
    with perhaps_served(paddock, served):
        paddock("plugin", "enable", "diary")
        unasked = paddock("plugin", "enable", "diary", "--tenant", "acme", "--json", code=4).error
        assert unasked["code"] == "consent_required"
        assert unasked["hint"].endswith("paddock plugin enable diary --tenant acme --yes")
        assert paddock.quickly("call", "diary.recall", "--as", "acme/user:bob", code=3).err

        paddock("plugin", "enable", "diary", "--tenant", "acme", "--yes")
        configure = ("plugin", "configure", "diary", "token", "--tenant", "acme")
        paddock.on_terminal(*configure, answers=["theirs"], prompt="): ")
        paddock("call", "diary.keep", "-p", '{"text": "our secret"}')
        before = paddock("call", "diary.recall", "--as", "acme/user:bob").json
        kept = paddock("call", "diary.keep", "-p", '{"text": "their secret"}', "--tenant", "acme").json
        after = [paddock("call", "diary.recall", *options).json for options in ([], ["--as", "acme/user:bob"])]
        logs = [paddock("plugin", "logs", "diary", *options).out for options in ([], ["--tenant", "acme"])]

        assert (before, kept) == ({"text": None}, {"token": "theirs"})
        assert after == [{"text": "our secret"}, {"text": "their secret"}]
        assert ["our secret" in log for log in logs] == [True, False]
        assert ["their secret" in log for log in logs] == [False, True]
        if served:
            ours, theirs = (
                paddock("call", "list", "--json", *options).json["calls"] for options in ([], ["--tenant", "acme"])
            )
            assert (len(ours), len(theirs)) == (2, 3)
            paddock("call", "show", theirs[0]["call_id"], code=3)
            paddock("call", "show", theirs[0]["call_id"], "--tenant", "acme")

        paddock("plugin", "disable", "diary", "--tenant", "acme")
        states = [
            paddock("plugin", "list", "--json", *options).json["plugins"][0]["state"]
            for options in ([], ["--tenant", "acme"])
        ]
        assert states == ["enabled", "disabled"]
        paddock("plugin", "enable", "diary", "--tenant", "acme")  # what was granted stays granted
        paddock("plugin", "show", "diary", "--tenant", "nobody", code=3)
