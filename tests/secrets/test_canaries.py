"""Fifty secrets are set and used, in calls that succeed, fail and crash, and are then looked for everywhere."""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Answer, Daemon, daemon
from fixtures.packages import native, write_file

from .haystacks import files_below, processes, seen, written

pytestmark = [pytest.mark.req("S-29"), pytest.mark.req("S-12")]

MAIN = """
import os, sys, time
from paddock_sdk import Plugin

plugin = Plugin("keeper", "1.0.0", capabilities_used=["host:secrets"])

@plugin.tool
def use(params, context):
    found = plugin.host.secrets.get(params["name"]).wait()
    return {"length": len(found or "")}

@plugin.tool
def hold(params, context):
    found = [plugin.host.secrets.get(name).wait() for name in params["names"]]
    plugin.progress(len(found), len(found), "held")
    while True:
        time.sleep(0.02)
        plugin.check_cancelled()

@plugin.tool
def fail(params, context):
    found = plugin.host.secrets.get(params["name"]).wait()
    raise RuntimeError("it did not work, with %d characters" % len(found))

@plugin.tool
def steal(params, context):
    return {"got": plugin.host.secrets.get("not_declared").wait()}

@plugin.tool
def crash(params, context):
    found = plugin.host.secrets.get(params["name"]).wait()
    os.abort()

plugin.run()
"""
NAMES = [f"canary_{number}" for number in range(50)]
OF_ALL, OF_ANN = NAMES[::2], NAMES[1::2]
VALUES = {name: f'{secrets.token_hex(8)}-"ü&= %{name}' for name in NAMES}


def keeper(folder: Path) -> Path:
    tools = [
        {"name": name, "description": name, "effects": ["read_only"], "input_schema": {"type": "object"}}
        for name in ("use", "hold", "fail", "steal", "crash")
    ]
    runtime = {"command": ["python3", "./main.py"]}
    native(folder, "keeper", runtime=runtime, capabilities=["host:secrets"], secrets=[*NAMES], tools=tools)
    write_file(folder / "main.py", MAIN)
    return folder


def typed(paddock: Paddock, name: str, *more: str) -> bytes:
    """Set a secret on stdin; everything that was said, and how the process looked to others meanwhile."""
    command = ("secret", "set", name, *more)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with paddock._process(command, **pipes) as process:
        assert process.stdin is not None
        process.stdin.write(VALUES[name])
        process.stdin.flush()
        looked = b"".join(processes(process.pid).values())
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, err
    return looked + out.encode() + err.encode()


def call(running: Daemon, tool: str, *, by: str = "", detach: str = "", **params: Any) -> Answer:
    headers = {"Paddock_As": by} if by else {}
    return running.ask("POST", f"/plugins/keeper/call/{tool}{detach}", params, **headers)


def test_none_of_fifty_secrets_is_anywhere_but_in_the_plugin_that_asked(paddock: Paddock, tmp_path: Path) -> None:
    places: dict[str, bytes] = {}
    paddock("plugin", "install", keeper(tmp_path / "keeper"), "--yes")
    paddock("plugin", "enable", "keeper", "--yes")
    paddock("user", "add", "ann")
    for name in OF_ALL[:20] + OF_ANN:
        whose = ["--user", "ann"] if name in OF_ANN else []
        places[f"set {name}"] = typed(paddock, name, *whose, "--json")
    with daemon(paddock) as running:
        for name in OF_ALL[20:]:
            places[f"set {name}"] = typed(paddock, name)  # beside the daemon
        used = [call(running, "use", name=name) for name in OF_ALL]
        used += [call(running, "use", name=name, by="user:ann") for name in OF_ANN]
        assert [one.status for one in used] == [200] * len(used), used
        assert [one.body["result"]["length"] for one in used] == [len(VALUES[name]) for name in OF_ALL + OF_ANN]
        refused = [
            call(running, "fail", name=OF_ALL[0]),
            call(running, "steal"),
            call(running, "crash", name=OF_ALL[1]),
        ]
        assert all(one.status >= 400 for one in refused)
        held = call(running, "hold", names=OF_ALL, detach="?detach=1").body["call_id"]
        with running.following(f"/calls/{held}/events") as events:
            next(events)
            places |= processes(running.process.pid)
        assert any(b"main.py" in hay for hay in places.values()), "the plugin is among them"
        pages = (
            "/plugins",
            "/plugins/keeper",
            "/plugins/keeper/logs",
            "/calls",
            f"/calls/{held}",
            "/status",
            "/metrics",
        )
        shown = [running.ask("GET", page) for page in pages]
        assert [one.status for one in shown] == [200] * len(pages)
        for index, one in enumerate([*used, *refused, *shown]):
            places[f"answer {index}"] = json.dumps([one.body, one.headers], ensure_ascii=False).encode()
        places |= {f"running {file}": content for file, content in files_below(paddock.home).items()}
    places["daemon"] = "".join(running.log).encode()
    for command in (
        ("secret", "list"),
        ("secret", "list", "--json"),
        ("secret", "rm", NAMES[0], "--yes", "--json"),
        ("secret", "rotate", "--yes"),
        ("ledger", "tail", "--json"),
        ("ledger", "export", str(tmp_path / "export.jsonl")),
        ("plugin", "logs", "keeper"),
        ("plugin", "info", "keeper", "--json"),
        ("call", "keeper.use", "--params", json.dumps({"name": NAMES[4]})),
    ):
        said = paddock(*command)
        places[" ".join(command)] = (said.out + said.err).encode()
    places |= files_below(paddock.home) | {"export": (tmp_path / "export.jsonl").read_bytes()}

    assert seen(VALUES.values(), places) == []
    assert seen([value[:16] for value in VALUES.values()], places) == [], "nor the half of one"
    assert b"secret.used" in places["export"]
    assert seen(NAMES, {"export": places["export"]}), "names are on record"


@pytest.mark.parametrize("how", written("x"))
def test_the_search_finds_a_secret_in_every_encoding_and_place(tmp_path: Path, how: str) -> None:
    value = VALUES[NAMES[7]]
    for number, needle in enumerate(written(value)[how]):
        write_file(tmp_path / f"{number}", "").write_bytes(b"before " + needle + b" after")
    found = seen(VALUES.values(), files_below(tmp_path))
    assert {(one[0], one[1]) for one in found} >= {(value, how)}
    assert {one[0] for one in found} == {value}


def test_the_search_finds_a_secret_inside_of_longer_base64_and_among_processes() -> None:
    import base64

    value = VALUES[NAMES[8]]
    for before in ("", "a", "ab"):
        hay = base64.b64encode(f"{before}{value} and more".encode())
        assert ("base64", "hay") in [one[1:] for one in seen([value], {"hay": hay})]
    waiting = "import sys; sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", waiting, value], stdin=subprocess.PIPE, env={"CANARY": VALUES[NAMES[9]]}
    ) as child:
        found = seen(VALUES.values(), processes(child.pid))
        child.communicate()
    assert {(one[0], one[2].partition("/")[2]) for one in found if one[1] == "as it is"} == {
        (value, "cmdline"),
        (VALUES[NAMES[9]], "environ"),
    }
