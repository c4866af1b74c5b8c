"""What people see of plugins that fail: both words of `list`, the reason wherever they look, and what can be tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.commands import Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import native, write_file
from fixtures.parrot import parrot
from fixtures.prepared_homes import enabled_parrot, prepare_home
from paddock.host.wiring.local_store import open_local_store
from paddock.plugins.manage.enable import disable

WHY = "failed too often: it ended with exit status 3; its last log line: going down"
WAY = "if the plugin itself has to change, upgrade it to a new version first; then enable it"
SERVER = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("method") == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        result["serverInfo"] = {"name": "server", "version": "1"}
    elif asked.get("method") == "tools/list":
        result = {"tools": [{"name": "look", "description": "Looks", "inputSchema": {"type": "object"}}]}
    else:
        text = "ENOENT: no such file or directory, open '/srv/nothing/here'"
        result = {"isError": True, "content": [{"type": "text", "text": text}]}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
STRANGER = "import sys\nsys.stdin.readline()\nprint('[]', flush=True)\nsys.stdin.readline()  # {name} {version}\n"
ORPHAN = "import a_library_of_mine  # {name} {version}\n"


def given_up(paddock: Paddock, folder: Path) -> None:
    """A parrot that a daemon gave up, as the daemon writes that down."""
    paddock("plugin", "install", parrot(folder / "parrot"), "--yes")
    paddock("plugin", "enable", "parrot")
    with open_local_store({"PADDOCK_HOME": str(paddock.home)}, folder) as host:
        disable(host.plugins, "parrot", given_up=WHY)


def cells(paddock: Paddock) -> list[str]:
    return paddock("plugin", "list").out.splitlines()[1].split()


def test_one_that_was_given_up_says_so_everywhere_without_a_daemon(paddock: Paddock, source: Path) -> None:
    given_up(paddock, source)

    listed = paddock("plugin", "list")
    assert listed.out.splitlines()[1].split()[:6] == ["parrot", "1.0.0", "disabled", "(given", "up)", "-"]
    assert f"parrot was given up and is disabled: it {WHY}\n  → {WAY}\n  → paddock plugin enable parrot\n" in listed.err
    assert "disabled (given up)" in paddock("plugin", "show", "parrot").out
    refused = paddock("call", "parrot.say", "-p", "{}", "--json", code=3).error
    assert (refused["code"], refused["message"]) == ("plugin.not_enabled", f"parrot is not enabled: it {WHY}")
    assert refused["hint"] == WAY
    (check,) = [one for one in paddock("doctor", "--json").json["checks"] if one["name"] == "plugins"]
    assert (check["status"], check["details"]) == ("warn", [f"parrot was given up: it {WHY}"])
    assert WAY in check["why"]


@pytest.mark.slow
def test_the_way_that_is_named_takes_over_what_was_mended_in_the_folder_it_came_from(
    paddock: Paddock, source: Path
) -> None:
    given_up(paddock, source)
    parrot(source / "parrot", version="1.0.1")

    paddock("plugin", "upgrade", "parrot", "--yes")
    paddock("plugin", "enable", "parrot")

    assert cells(paddock)[:3] == ["parrot", "1.0.1", "enabled"]
    assert paddock("call", "parrot.say", "-p", '{"text": "again"}').json["said"] == "again"


@pytest.mark.slow
def test_enabling_it_forgets_that(paddock: Paddock, source: Path) -> None:
    given_up(paddock, source)
    paddock("plugin", "enable", "parrot")

    assert cells(paddock)[:4] == ["parrot", "1.0.0", "enabled", "-"]
    assert paddock("plugin", "show", "parrot", "--json").json["given_up"] == ""


def test_one_that_is_refused_in_the_handshake_stays_enabled_and_is_not_worth_a_retry(
    paddock: Paddock, source: Path
) -> None:
    paddock("plugin", "install", parrot(source / "parrot", main=STRANGER), "--yes")
    paddock("plugin", "enable", "parrot", "--no-start")
    with daemon(paddock) as served:
        served.settled()
        assert cells(paddock)[:4] == ["parrot", "1.0.0", "enabled", "failed"]
        problem = served.ask("POST", "/plugins/parrot/call/say", {}).body
        assert (problem["code"], problem["retryable"]) == ("plugin.failed", False)
        assert paddock("plugin", "enable", "parrot", "--json", code=7).error["retryable"] is False


@pytest.mark.slow
def test_show_tells_why_it_died_last_and_how_often_while_the_next_process_runs(paddock: Paddock, source: Path) -> None:
    prepare_home(paddock, enabled_parrot)
    with daemon(paddock) as served:
        served.settled()
        for restarts, times in ((1, "once"), (2, "2 times")):
            paddock("call", "parrot.die", code=7)
            eventually(lambda: cells(paddock)[3] == "running", "it is not started again")
            shown = " ".join(paddock("plugin", "show", "parrot").out.split())
            assert f"exit status 3; its last log line: about to die; restarted {times}" in shown
            runtime = paddock("plugin", "show", "parrot", "--json").json["runtime"]
            assert (runtime["restarts"], runtime["last_failure"]["error_code"]) == (restarts, "plugin.crashed")


def test_a_call_without_a_daemon_gives_the_advice_and_promises_no_restart(paddock: Paddock, source: Path) -> None:
    paddock("plugin", "install", parrot(source / "parrot", main=ORPHAN), "--yes")
    paddock("plugin", "enable", "parrot", "--no-start")

    refused = paddock("call", "parrot.count", "--json", code=7).error
    assert "its Python module a_library_of_mine cannot be imported in the cage" in refused["message"]
    assert "a_library_of_mine" in refused["hint"]
    assert "restart" not in refused["message"] + refused["hint"]


@pytest.mark.slow
@pytest.mark.parametrize("when", ["at its start", "in a tool"])
def test_a_server_with_a_manifest_of_its_own_is_given_a_file_by_that_manifest(
    paddock: Paddock, source: Path, when: str
) -> None:
    main = "open('/srv/nothing/here')\n" if when == "at its start" else SERVER
    package = native(
        source,
        "server",
        runtime={"command": ["python3", "./main.py"], "protocol": "mcp"},
        capabilities=["net:[]"],
        tools=None,
    )
    write_file(package / "main.py", main)
    paddock("plugin", "install", package, "--yes")
    paddock("plugin", "enable", "server", "--no-start")

    refused = paddock("call", "server.look", "--json", code=7).error

    assert "declare" in refused["hint"] and "read:fs:" in refused["hint"]
    assert "new version" in refused["hint"] and refused["action"]["kind"] == "plugin.upgrade"
    assert refused["action"]["arguments"] == {"plugin": "server"}
