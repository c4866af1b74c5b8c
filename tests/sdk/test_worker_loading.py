"""What a worker loads, from where, and what it says when it cannot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.sdk.conversation import PATIENCE
from tests.sdk.workers import process, working, write

from paddock.cage.spec import ProcessExit
from paddock.runtime.diagnosis import diagnose_exit

FINE = "class Plugin:\n    def execute(self, params, context, host):\n        return 1\n"


def why(root: Path, files: Mapping[str, str], target: str = "plug:Plugin", **more: Any) -> str:
    """What the host would tell of a plugin that cannot be loaded."""
    with process(write(root, files), {"it": target}, **more) as wire:
        code = wire.process.wait(PATIENCE)
        assert wire.process.stderr and wire.process.stdout
        assert wire.process.stdout.read() == b""
        lines = wire.process.stderr.read().decode().splitlines()
    assert code == 1
    return diagnose_exit("actor", ProcessExit(code, None), lines, answered=False).reason


@pytest.mark.parametrize(
    ("files", "target", "told"),
    [
        ({}, "plug:Plugin", "the entry point plug:Plugin is not in the package: there is no plug"),
        ({"plug.py": FINE}, "plug.sub:Plugin", "plug.sub:Plugin is not in the package: there is no plug.sub"),
        ({"plug.py": FINE}, "plug:Plugn", "the entry point plug:Plugn is not in the package: plug has no Plugn"),
        ({"plug.py": "class Plugin: pass"}, "plug:Plugin", "plug:Plugin has no execute(params, context, host)"),
        ({"plug.py": "import yaml_not_there"}, "plug:Plugin", "its Python module yaml_not_there cannot be imported"),
        ({"plug.py": "def broken(:"}, "plug:Plugin", "its code cannot be parsed: invalid syntax"),
        ({"plug.py": "open('/nowhere/at-all')"}, "plug:Plugin", "it looked for /nowhere/at-all"),
        ({"plug.py": "raise ValueError('bad luck')"}, "plug:Plugin", "its last log line: ValueError: bad luck"),
        ({"plug.py": "import sys; sys.exit('stopping')"}, "plug:Plugin", "its last log line: SystemExit: stopping"),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else None,
)
def test_a_plugin_that_cannot_be_loaded_ends_before_the_handshake_and_its_log_says_why(
    tmp_path: Path, files: Mapping[str, str], target: str, told: str
) -> None:
    assert told in why(tmp_path, files, target)


def test_an_entry_point_of_the_kernel_that_cannot_be_called_is_named(tmp_path: Path) -> None:
    told = why(tmp_path, {"plug.py": "Plugin = 5"}, dialect="kernel", kind="tool")
    assert "the entry point plug:Plugin is no function" in told


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import yaml_not_there", "its Python module yaml_not_there cannot be imported"),
        ("def other(): pass", "the entry point plug:run is not in the package: plug has no run"),
        ("import paddock", "a plugin may not import paddock"),
        ("import os; os._exit(1)", "it ended with exit status 1 before it answered"),
    ],
)
def test_an_agent_says_why_it_cannot_be_loaded_as_any_other_plugin_does(tmp_path: Path, code: str, told: str) -> None:
    assert told in why(tmp_path, {"plug.py": code}, "plug:run", dialect="kernel", kind="agent")


LOOKING = """
import json, sys
import helper, bundled

class Plugin:
    def execute(self, params, context, host):
        found = {}
        for name in ("orjson", "pytest", "apsw", "worker", "forks", "paddock_sdk"):
            try:
                found[name] = bool(__import__(name))
            except ImportError:
                found[name] = False
        import os
        return {"found": found, "helper": helper.WHERE, "bundled": bundled.WHERE, "path": sys.path[:2],
                "told": "PADDOCK_WORKER" in os.environ}
"""


@pytest.mark.req("S-07", "vendored libraries for this plugin only")
def test_a_plugin_sees_its_root_its_vendored_libraries_the_sdk_and_nothing_else_of_the_host(tmp_path: Path) -> None:
    files = {"plug.py": LOOKING, "helper.py": "WHERE = 'root'", "vendor/helper.py": "WHERE = 'vendor'"}
    write(tmp_path, {**files, "vendor/bundled/__init__.py": "WHERE = 'vendor'"})
    with working(tmp_path, {"it": "plug:Plugin"}) as plugin:
        seen = plugin.call()["data"]
    nothing = dict.fromkeys(("orjson", "pytest", "apsw", "worker", "forks"), False)
    assert seen == {
        "found": {**nothing, "paddock_sdk": True},
        "helper": "root",
        "bundled": "vendor",
        "path": [str(tmp_path), f"{tmp_path}/vendor"],
        "told": False,
    }


def test_a_plugin_with_an_environment_of_its_own_imports_from_there(tmp_path: Path) -> None:
    write(tmp_path, {"env/site-packages/installed.py": "ANSWER = 42", "plug.py": "import installed\n" + FINE})
    with working(tmp_path, {"it": "plug:Plugin"}, site=[str(tmp_path / "env/site-packages")]) as plugin:
        assert plugin.call()["data"] == 1


def test_what_is_printed_while_loading_never_reaches_the_wire(tmp_path: Path) -> None:
    write(tmp_path, {"plug.py": 'print(\'{"jsonrpc": "2.0"}\')\n' + FINE})
    with working(tmp_path, {"it": "plug:Plugin"}) as plugin:
        assert plugin.call()["data"] == 1
        code, log = plugin.wire.end()
    assert (code, log) == (0, [{"jsonrpc": "2.0"}])


def test_a_worker_greets_as_its_plugin_and_serves_nobody_before_that(tmp_path: Path) -> None:
    write(tmp_path, {"plug.py": FINE})
    with process(tmp_path, {"it": "plug:Plugin"}) as wire:
        assert wire.error("worker.call", {"callable": "it"})["code"] == -32002
        answer = wire.greet("under-test", config={"a": 1})
        assert (answer["name"], answer["version"], answer["methods"]) == ("under-test", "1.0.0", [])
        assert answer["features"] == ["call_tokens", "cancel", "events"]
        assert wire.error("worker.dance")["code"] == -32601
        assert wire.error("worker.call", {"callable": "it", "payload": [1]})["code"] == -32602
        wire.tell("shutdown")
        assert wire.process.wait(PATIENCE) == 0


TYPED = """
from dataclasses import dataclass
from paddock_sdk import Context, Host, Plugin

@dataclass
class Sum:
    total: int

def add(numbers: list[int], context: Context, host: Host) -> Sum:
    host.log.info("adding")
    return Sum(sum(numbers))

def classic(params, context):
    return [params, context.request_id]

plugin = Plugin("under-test", "1.0.0")

@plugin.tool
async def it(text: str) -> str:
    return text.upper()
"""


def test_plain_functions_and_tools_of_our_own_run_in_the_worker_too(tmp_path: Path) -> None:
    write(tmp_path, {"plug.py": TYPED})
    targets = {"add": "plug:add", "classic": "plug:classic", "it": "plug:plugin"}
    with working(tmp_path, targets, dialect="native") as plugin:
        told = plugin.describe()
        assert told["add"]["input_schema"]["required"] == ["numbers"]
        assert told["add"]["output_schema"]["properties"] == {"total": {"type": "integer"}}
        assert told["classic"]["input_schema"] is None
        assert plugin.call({"numbers": [1, 2]}, name="add") == {"total": 3}
        assert plugin.call({"a": 1}, name="classic") == [{"a": 1}, ""]
        assert plugin.call({"text": "x"}) == "X"
        error = plugin.failure({"numbers": [1, "x"], "more": 1}, name="add")
    assert error["code"] == -32602
    assert {one["path"] for one in error["data"]["errors"]} == {"numbers[1]", "more"}


def test_the_orders_are_read_from_the_environment_once() -> None:
    from paddock_sdk.worker.worker_config import read_worker_config

    with pytest.raises(ValueError, match="incomplete"):
        read_worker_config(json.dumps({"name": "x"}))
