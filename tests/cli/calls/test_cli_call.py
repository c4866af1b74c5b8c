"""`paddock call`, through a daemon and without one: the same words, the same codes."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import daemon, eventually
from fixtures.packages import kernel
from fixtures.parrot import MAIN, parrot

# Without a daemon most of it is the same story again.
both_ways = pytest.mark.parametrize("way", [pytest.param("alone", marks=pytest.mark.slow), "served"])


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Generator[dict[str, Paddock], None, None]:
    """Two homes with an enabled parrot; in one of them a daemon runs."""
    folder = tmp_path_factory.mktemp("call")
    found = {way: Paddock(folder / way / "home") for way in ("alone", "served")}
    for way, paddock in found.items():
        (folder / way).mkdir()
        paddock("plugin", "install", parrot(folder / way / "parrot"), "--yes")
        paddock("plugin", "enable", "parrot")
    with ExitStack() as running:
        running.enter_context(daemon(found["served"]))
        yield found


@pytest.fixture
def caller(homes: dict[str, Paddock], way: str) -> Paddock:
    return homes[way]


@both_ways
@pytest.mark.req("G-31", "method happy path")
def test_a_call_prints_what_the_plugin_answers(caller: Paddock) -> None:
    said = caller("call", "parrot.say", "--params", '{"text": "hello"}')

    assert said.json["said"] == "hello"


@both_ways
def test_with_json_the_whole_call_is_printed(caller: Paddock) -> None:
    call = caller("call", "parrot.say", "-p", '{"text": "hello"}', "--json").json

    assert call["call_id"].startswith("call_")
    assert (call["plugin"], call["callable"], call["status"]) == ("parrot", "say", "succeeded")
    assert call["result"]["said"] == "hello"


@both_ways
def test_parameters_come_from_a_file_or_from_stdin_too(caller: Paddock, tmp_path: Path) -> None:
    file = tmp_path / "params.json"
    file.write_text('{"text": "from a file"}')
    piped = caller.piped('{"text": "from stdin"}', "call", "parrot.say", "--params", "-")

    assert caller("call", "parrot.say", "-p", f"@{file}").json["said"] == "from a file"
    assert piped.json["said"] == "from stdin"


@both_ways
def test_what_the_plugin_tells_meanwhile_goes_to_stderr(caller: Paddock) -> None:
    said = caller("call", "parrot.count")

    assert said.json == {"counted": 3}
    assert said.err.splitlines() == ["1/3 counting", "2/3 counting", "3/3 counting"]


@both_ways
@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["parrot.sya"], 3, "callable.not_found"),
        (["nobody.say"], 3, "callable.not_found"),
        (["parrot.say", "-p", '{"text": 3, "volume": 11}'], 6, "invalid_params"),
        (["parrot.say", "-p", "[1]"], 6, "invalid_params"),
        (["parrot.say", "-p", "{"], 6, "invalid_params"),
        (["parrot.say", "-p", "@/no/such/file"], 3, "params.unreadable"),
        (["parrot.wait", "--timeout", "0.5"], 8, "call.timeout"),
    ],
)
def test_each_way_to_fail_has_its_exit_code(caller: Paddock, arguments: list[str], code: int, named: str) -> None:
    said = caller("call", *arguments, "--json", code=code)

    assert said.error["code"] == named


@both_ways
def test_all_mistakes_in_the_parameters_are_told(caller: Paddock) -> None:
    said = caller("call", "parrot.say", "-p", '{"text": 3, "volume": 11}', "--json", code=6)

    assert [one["path"] for one in said.error["errors"]] == ["text", "volume"]


@both_ways
def test_a_plugin_that_dies_fails_the_call_with_exit_code_7_and_says_why(caller: Paddock) -> None:
    said = caller("call", "parrot.die", "--json", code=7)

    why = "it ended with exit status 3; its last log line: about to die"
    assert said.error["message"] == f"parrot ended before it answered: {why}"
    assert said.error["action"] == {"kind": "plugin.logs", "arguments": {"plugin": "parrot"}}
    caller("plugin", "enable", "parrot")
    assert caller("call", "parrot.say", "-p", '{"text": "well again"}').json["said"] == "well again"


@both_ways
def test_a_handler_that_raises_is_named_and_what_it_raised_is_in_the_log(caller: Paddock) -> None:
    said = caller("call", "parrot.burn", "--json", code=7)

    assert said.error["message"] == "parrot failed (KeyError)"
    assert said.error["action"] == {"kind": "plugin.logs", "arguments": {"plugin": "parrot"}}
    assert "KeyError: 'seconds'" in caller("plugin", "logs", "parrot").out


@pytest.mark.parametrize("seconds", ["0", "-1", "soon", "nan", "inf"])
def test_a_timeout_that_is_no_time_is_wrong_usage(homes: dict[str, Paddock], seconds: str) -> None:
    assert "--timeout" in homes["alone"].quickly("call", "parrot.say", "--timeout", seconds, code=2).err


@both_ways
def test_interrupting_the_command_cancels_the_call(caller: Paddock, way: str) -> None:
    process = caller.start("call", "parrot.wait", "--json")
    assert process.stderr is not None
    first = process.stderr.readline()  # the plugin works on it

    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)

    assert (process.returncode, "interrupted" in err) == (130, True), (first, err)
    assert json.loads(out)["error"]["code"] == "interrupted", (first, out)
    if way == "served":
        listed = caller("plugin", "list", "--json").json["plugins"][0]
        eventually(
            lambda: caller("plugin", "list", "--json").json["plugins"][0]["runtime"]["in_flight"] == 0,
            f"the call goes on: {listed}",
        )


def test_a_detached_call_goes_on_without_the_command(homes: dict[str, Paddock]) -> None:
    paddock = homes["served"]
    made = paddock("call", "parrot.count", "--detach")

    call_id = made.out.removesuffix("\n")
    assert (call_id[:5], call_id.isascii(), len(call_id.split())) == ("call_", True, 1)
    assert f"paddock call follow {call_id}" in made.err
    assert paddock("call", "parrot.count", "--detach", "--json").json["call_id"].startswith("call_")


def test_detaching_without_a_daemon_says_what_to_start(homes: dict[str, Paddock]) -> None:
    refused = homes["alone"]("call", "parrot.count", "--detach", "--json", code=1).error

    assert (refused["code"], refused["message"]) == ("daemon.not_running", "no daemon runs, and --detach needs one")
    assert "paddock serve" in refused["hint"]


def test_without_a_daemon_only_the_called_plugin_is_started_and_none_is_left(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    for name in ("first", "second"):
        paddock("plugin", "install", parrot(tmp_path / name, name), "--yes")
        paddock("plugin", "enable", name)

    paddock("call", "first.note", "-p", '{"text": "I ran"}')

    assert "I ran" in paddock("plugin", "logs", "first").out
    assert paddock("plugin", "logs", "second").out == ""
    children = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in children


def test_a_disabled_plugin_is_not_called(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock("plugin", "install", parrot(tmp_path / "parrot"), "--yes")

    refused = paddock("call", "parrot.say", "-p", '{"text": "hi"}', "--json", code=3).error
    assert refused["code"] == "plugin.not_enabled"
    assert refused["action"] == {"kind": "plugin.enable", "arguments": {"plugin": "parrot"}}


def test_a_plugin_that_is_one_callable_is_named_once_where_its_parameters_are_wrong(
    paddock: Paddock, source: Path
) -> None:
    number = {"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]}
    paddock.quickly("plugin", "install", kernel(source / "draft", "Email.Draft", input_schema=number), "--yes")
    paddock.quickly("plugin", "enable", "Email.Draft", "--no-start")

    said = paddock("call", "Email.Draft", "-p", '{"count": "x"}', code=6)
    assert "the parameters of Email.Draft are not valid" in said.err


@pytest.mark.slow
def test_without_a_daemon_the_result_is_printed_before_the_plugin_has_ended(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    leaves_late = MAIN.replace("plugin.run()", "import atexit\natexit.register(time.sleep, 60)\nplugin.run()")
    source = parrot(tmp_path / "parrot", main=leaves_late, timing={"shutdown_sec": 2})
    paddock("plugin", "install", source, "--enable", "--yes")

    with paddock.start("call", "parrot.say", "--params", '{"text": "hello"}') as calling:
        assert calling.stdout is not None
        answer = "".join(iter(calling.stdout.readline, "}\n"))

        children = Path(f"/proc/{calling.pid}/task").glob("*/children")
        assert '"said": "hello"' in answer
        assert any(child.read_text() for child in children)  # the plugin is still being stopped
    assert calling.returncode == 0
