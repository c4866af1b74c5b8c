"""`paddock serve`, and the commands that act on a daemon where one runs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, LocalConnection, again_and_again, ask, daemon, eventually
from fixtures.parrot import MAIN, parrot
from fixtures.prepared_homes import enabled_parrot, prepare_home

BROKEN = "raise SystemExit('no feathers')"


@pytest.fixture
def owner(paddock: Paddock) -> Paddock:
    """A home with an enabled parrot."""
    prepare_home(paddock, enabled_parrot)
    return paddock


def plugin_pid(started: Daemon) -> int:
    return started.ask("GET", "/plugins/parrot").body["runtime"]["pid"]


def alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


# --- starting ---------------------------------------------------------------------------------------------------------


def test_one_line_says_that_the_daemon_is_ready_and_one_that_it_stopped(owner: Paddock) -> None:
    with owner.start("serve") as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        process.terminate()
        rest, err = process.communicate(timeout=PATIENCE)

    where = owner.home / "run" / "paddock.sock"
    # On a machine that is very busy the plugin may take longer than the word waits.
    plugins = r"(1 plugin runs|0 plugins run, 1 starting)"
    places = rf"http://127\.0\.0\.1:\d+ and {re.escape(str(where))}"
    assert re.fullmatch(rf"ready: {plugins}; listening on {places} \(pid {process.pid}\)\n", first)
    assert (rest, process.returncode) == ("stopped\n", 0)
    assert "stopping: calls under way may finish" in err


def test_a_port_of_the_command_line_replaces_that_of_the_settings_and_one_that_is_taken_is_named(
    paddock: Paddock,
) -> None:
    off = dataclasses.replace(paddock, more={"PADDOCK_HTTP_ADDRESS": "off"})
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = off("serve", "--json", "--port", port, code=1)
        assert json.loads(refused.out.splitlines()[0])["error"]["details"] == {"address": f"127.0.0.1:{port}"}
        assert "set http.address to another port" in refused.err
    with daemon(off, "--port", "0") as started:
        assert started.tcp[0] == "127.0.0.1"
        assert started.ask_tcp("GET", "//healthz").status == 200
    assert "65536" in paddock.quickly("serve", "--port", "65536", code=2).err


@pytest.mark.req("G-19", "a failure does not stop the host")
def test_a_plugin_that_does_not_start_is_named_with_its_reason_and_the_others_run(owner: Paddock, source: Path) -> None:
    owner("plugin", "install", parrot(source / "broken", "broken", main=BROKEN), "--yes")
    owner("plugin", "enable", "broken", "--no-start")

    with daemon(owner) as started:
        broken = started.told(event="plugin", name="broken", state="crashed")
        assert "no feathers" in broken["reason"] and broken["action"]["kind"] == "plugin.logs"
        assert started.told(event="plugin", name="parrot", state="running")
        assert started.told(event="ready")["plugins"] == 2

        said = owner("plugin", "list")
        assert re.search(r"^parrot .* running ", said.out, re.MULTILINE)
        assert "no feathers" in said.err


@pytest.mark.slow
def test_a_plugin_that_is_slow_to_start_holds_up_neither_the_ready_line_nor_others_and_its_calls_wait_for_it(
    owner: Paddock, source: Path
) -> None:
    slow = parrot(source / "slow", "slow", main="import time; time.sleep(5)\n" + MAIN)
    owner("plugin", "install", slow, "--yes")
    owner("plugin", "enable", "slow")

    started = Daemon(owner)
    try:
        assert started.told(event="ready")["starting"] >= 1
        assert started.ask("GET", "/plugins/slow").body["runtime"]["state"] == "spawning"
        assert started.ask("POST", "/plugins/parrot/call/say", {"text": "quick"}).body["result"]["said"] == "quick"
        waited = started.ask("POST", "/plugins/slow/call/say", {"text": "at last"})
        assert waited.body["result"]["said"] == "at last"
        assert started.told(event="plugin", name="slow", state="running")["pid"]
    finally:
        assert started.stop() == 0
        for stream in (started.process.stdout, started.process.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.slow
def test_people_are_told_of_plugins_that_start_or_fail_after_the_ready_line(owner: Paddock, source: Path) -> None:
    for name, main in (("slow", MAIN), ("late", BROKEN)):
        owner("plugin", "install", parrot(source / name, name, main=f"import time; time.sleep(4)\n{main}"), "--yes")
        owner("plugin", "enable", name, "--no-start")

    with owner.start("serve") as process:
        assert process.stdout is not None and process.stderr is not None
        first = process.stdout.readline()
        told = [process.stderr.readline() for _ in range(3)]
        process.terminate()
        process.communicate(timeout=PATIENCE)

    assert re.match(r"ready: \d plugins? runs?, [23] starting; listening on ", first)
    words = "".join(told)
    assert "✓ slow runs\n" in words
    assert re.search(r"! late crashed: .*no feathers.*\n  → ", words)


@pytest.mark.slow
def test_whoever_stops_reading_the_daemons_words_does_not_stop_the_daemon(owner: Paddock) -> None:
    (out, full_out), (err, full_err) = full_pipe(), full_pipe()
    command = [sys.executable, "-m", "paddock.cli", "serve", "--json", "--log-level", "debug"]
    process = subprocess.Popen(command, stdout=full_out, stderr=full_err, env=owner.environment)
    where = owner.home / "run" / "paddock.sock"
    try:
        eventually(lambda: listening(where), "it does not listen")
        for switch in ("disable", "enable", "disable", "enable"):
            assert ask(where, "POST", f"/plugins/parrot/{switch}").status == 200
        assert ask(where, "POST", "/plugins/parrot/call/say", {"text": "hello"}).body["result"]["said"] == "hello"
        process.terminate()
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
        for end in (out, full_out, err, full_err):
            os.close(end)


def listening(where: Path) -> bool:
    """Whether somebody takes calls there; the file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as caller:
        return caller.connect_ex(str(where)) == 0


def full_pipe() -> tuple[int, int]:
    """A pipe into which nothing more fits, and that nobody reads."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    return reading, writing


def test_a_second_daemon_is_refused_with_the_pid_of_the_first(owner: Paddock) -> None:
    with daemon(owner) as first:
        said = owner("serve", "--json", code=1)

        assert said.error["code"] == "daemon.running"
        assert said.error["details"]["pid"] == first.process.pid
        assert f"kill {first.process.pid}" in said.error["hint"]
        assert first.ask("GET", "/healthz").status == 200


@pytest.mark.slow
def test_a_daemon_may_open_as_many_files_as_the_system_lets_it(owner: Paddock) -> None:
    few = ["bash", "-c", 'ulimit -Sn 256; exec "$@"', "-", sys.executable, "-m", "paddock.cli", "serve", "--json"]
    with subprocess.Popen(few, env=owner.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        while json.loads(process.stdout.readline())["event"] != "ready":
            pass
        soft, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        process.terminate()
        process.communicate(timeout=PATIENCE)

    assert soft == hard


def test_a_killed_daemon_leaves_no_plugin_behind_and_its_socket_is_replaced(owner: Paddock) -> None:
    with daemon(owner) as killed:
        pid = plugin_pid(killed)
        assert killed.stop(signal.SIGKILL) == -signal.SIGKILL
        assert killed.socket.is_socket()
        eventually(lambda: not alive(pid), "the plugin outlived its daemon")

    assert owner("plugin", "list").code == 0  # a socket that nobody listens on is no daemon
    with daemon(owner) as again:
        assert again.ask("POST", "/plugins/parrot/call/say", {"text": "back"}).status == 200


def test_a_home_too_deep_for_the_name_of_a_socket_works_too(tmp_path: Path) -> None:
    home = tmp_path.joinpath(*["a-rather-long-name-for-a-directory"] * 4) / "home"
    home.parent.mkdir(parents=True)
    paddock = Paddock(home)
    started = Daemon(paddock)
    try:
        started.told(event="ready")
        assert len(str(started.socket)) > 108
        paddock("plugin", "install", parrot(tmp_path / "parrot"), "--yes")
        assert paddock("plugin", "enable", "parrot", "--json").json["runtime"]["state"] == "running"
    finally:
        assert started.stop() == 0
        for stream in (started.process.stdout, started.process.stderr):
            assert stream is not None
            stream.close()


@pytest.mark.parametrize("option", [("--log-format", "xml"), ("--log-level", "loud")])
def test_a_log_that_nobody_knows_is_wrong_usage(paddock: Paddock, option: tuple[str, str]) -> None:
    said = paddock.quickly("serve", *option, code=2)

    assert option[0] in said.err


@pytest.mark.slow
def test_log_lines_are_json_where_that_is_asked_for(owner: Paddock) -> None:
    with daemon(owner, "--log-format", "json") as started:
        problem = started.ask("POST", "/plugins/parrot/call/die", {}).body
        assert started.stop() == 0

    entries: list[dict[str, Any]] = [json.loads(line) for line in started.log if line.startswith("{")]
    (logged,) = [one for one in entries if one.get("error_id") == problem["error_id"]]
    assert (logged["level"], logged["code"]) == ("warning", problem["code"])


@pytest.mark.slow
def test_a_daemon_outlives_whoever_read_its_first_line(owner: Paddock) -> None:
    with owner.start("serve", "--json") as process:
        assert process.stdout is not None and process.stderr is not None
        while json.loads(process.stdout.readline())["event"] != "ready":
            pass
        process.stdout.close()
        process.stderr.close()

        assert owner("plugin", "disable", "parrot", "--json").json["state"] == "disabled"
        assert owner("plugin", "enable", "parrot", "--json").json["runtime"]["state"] == "running"

        assert process.poll() is None
        process.terminate()
        process.wait(PATIENCE)


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_a_stopping_daemon_lets_calls_finish_takes_no_new_ones_and_leaves_nothing(owner: Paddock, number: int) -> None:
    with daemon(owner) as started, ThreadPoolExecutor(1) as pool:
        pid = plugin_pid(started)
        under_way = pool.submit(started.ask, "POST", "/plugins/parrot/call/linger", {})
        eventually(lambda: started.ask("GET", "/plugins/parrot").body["runtime"]["in_flight"] == 1, "no call began")

        started.process.send_signal(number)
        started.told(event="draining")
        late = started.ask("POST", "/plugins/parrot/call/say", {"text": "too late"})
        ready = started.ask("GET", "/readyz")

        assert (late.status, late.body["code"]) == (503, "host.draining")
        assert (ready.status, ready.headers["retry-after"]) == (503, "1")
        assert under_way.result(PATIENCE).body["result"] == {"lingered": True}
        assert started.ended() == 0
        assert started.told(event="stopped")
        assert not alive(pid)
        assert not started.socket.exists()


@pytest.mark.slow
def test_a_second_signal_ends_the_daemon_at_once(owner: Paddock) -> None:
    with daemon(owner) as started, ThreadPoolExecutor(1) as pool:
        pid = plugin_pid(started)
        pool.submit(started.ask, "POST", "/plugins/parrot/call/wait", {})
        eventually(lambda: started.ask("GET", "/plugins/parrot").body["runtime"]["in_flight"] == 1, "no call began")

        started.process.terminate()
        started.told(event="draining")
        started.process.terminate()

        assert started.process.wait(8) == 130  # the call alone would have had ten seconds
        assert started.told(event="stopped")
        eventually(lambda: not alive(pid), "the plugin outlived its daemon")
        assert not started.socket.exists()


@pytest.mark.slow
def test_a_call_that_takes_longer_than_a_stopping_daemon_waits_is_told_that_it_was_cancelled(owner: Paddock) -> None:
    with daemon(owner) as started, owner.start("call", "parrot.wait", "--json") as calling:
        assert calling.stderr is not None
        calling.stderr.readline()  # the plugin works on it

        assert started.stop() == 0
        out, _ = calling.communicate(timeout=PATIENCE)

    assert json.loads(out)["error"]["code"] == "call.cancelled"
    assert calling.returncode == 1


@pytest.mark.slow
def test_whoever_waits_for_a_call_is_told_that_the_host_went_down_also_where_it_is_in_a_hurry(owner: Paddock) -> None:
    with daemon(owner) as started, closing(LocalConnection(started.socket)) as waiting:
        waiting.request("POST", "/api/v1/plugins/parrot/call/wait", b"{}")
        eventually(
            lambda: started.ask("GET", "/plugins/parrot").body["runtime"]["in_flight"] == 1, "the call never began"
        )

        started.process.send_signal(signal.SIGTERM)
        started.told(event="draining")
        started.process.send_signal(signal.SIGTERM)
        answer = waiting.getresponse()

        assert answer.status == 409
        assert json.load(answer)["detail"].startswith("the host went down")
        assert started.process.wait(PATIENCE) == 130


@pytest.mark.slow
def test_whoever_follows_something_is_let_go_when_the_daemon_stops(owner: Paddock) -> None:
    with daemon(owner) as started, started.following("/plugins/parrot/notifications") as events:
        assert started.stop() == 0

        assert [event for event in events if event["event"] != "following"] == []


# --- commands that act on a daemon ------------------------------------------------------------------------------------


@pytest.mark.req("G-24")
def test_enabling_and_disabling_start_and_stop_the_process(paddock: Paddock, source: Path) -> None:
    paddock("plugin", "install", parrot(source / "parrot"), "--yes")
    with daemon(paddock):
        enabled = paddock("plugin", "enable", "parrot", "--json").json
        runtime = enabled["runtime"]
        assert (enabled["state"], runtime["state"]) == ("enabled", "running") and alive(runtime["pid"])
        assert paddock("plugin", "list", "--json").json["plugins"][0]["runtime"].keys() == runtime.keys()
        assert f"pid {runtime['pid']}" in paddock("plugin", "show", "parrot").out

        assert paddock("plugin", "disable", "parrot", "--json").json["state"] == "disabled"
        assert not alive(runtime["pid"])
        assert re.search(r"^parrot .* disabled ", paddock("plugin", "list").out, re.MULTILINE)


def test_enabling_a_plugin_that_does_not_start_says_why_and_exits_with_7(paddock: Paddock, source: Path) -> None:
    paddock("plugin", "install", parrot(source / "broken", "broken", main=BROKEN), "--yes")
    with daemon(paddock):
        said = paddock("plugin", "enable", "broken", "--json", code=7)

        assert "no feathers" in said.error["message"]
        assert said.error["command"] == "paddock plugin logs broken"


@pytest.mark.slow
def test_a_name_that_nobody_has_is_the_same_error_with_and_without_a_daemon(paddock: Paddock) -> None:
    asked = list(product(("enable", "disable", "show", "logs"), ("nobody", "a/enable", "")))
    without = {words: paddock("plugin", *words, "--json", code=3).error for words in asked}
    with daemon(paddock):
        through_it = {words: paddock("plugin", *words, "--json", code=3).error for words in asked}

    assert through_it == without
    assert {error["code"] for error in without.values()} == {"plugin.not_found"}


def test_what_a_command_changes_is_in_effect_when_it_ends(owner: Paddock, source: Path) -> None:
    newer = parrot(source / "newer", version="1.1.0", main=MAIN.replace('"said": params["text"]', '"said": "newer"'))
    with daemon(owner) as started:
        old = plugin_pid(started)

        owner("plugin", "upgrade", "parrot", newer, "--yes")
        said = started.ask("POST", "/plugins/parrot/call/say", {"text": "x"})
        assert said.status == 200, said
        assert said.body["result"]["said"] == "newer"
        eventually(lambda: not alive(old), "the old version still runs")

        pid = plugin_pid(started)
        owner("plugin", "remove", "parrot", "--yes")
        assert started.ask("POST", "/plugins/parrot/call/say", {"text": "x"}).status == 404
        eventually(lambda: not alive(pid), "a removed plugin still runs")


@pytest.mark.slow
def test_an_upgrade_that_does_not_run_says_so_and_going_back_makes_it_run_again(owner: Paddock, source: Path) -> None:
    broken = parrot(source / "newer", version="1.1.0", main=BROKEN)
    with daemon(owner):
        failed = owner("plugin", "upgrade", "parrot", broken, "--yes", "--json", code=7).error
        assert "no feathers" in failed["message"]
        assert failed["hint"] == "go back: paddock plugin rollback parrot"
        shown = owner("plugin", "show", "parrot")
        assert "no feathers" in shown.err and "→ paddock plugin logs parrot" in shown.err

        back = owner("plugin", "rollback", "parrot", "--yes", "--json").json
        assert (back["version"], back["runtime"]["state"]) == ("1.0.0", "running")
        assert owner("plugin", "pin", "parrot", "--json").json["runtime"]["state"] == "running"
        assert "runs (pid" in owner("plugin", "repair", "parrot").err
        assert owner("call", "parrot.say", "-p", '{"text": "back"}').json["said"] == "back"


@pytest.mark.slow
def test_a_plugin_that_was_disabled_is_not_started_by_a_change(owner: Paddock, source: Path) -> None:
    newer = parrot(source / "newer", version="1.1.0")
    with daemon(owner):
        owner("plugin", "disable", "parrot")

        assert "runtime" not in owner("plugin", "upgrade", "parrot", newer, "--yes", "--json").json
        refused = owner("call", "parrot.say", "-p", '{"text": "x"}', "--json", code=3).error
        assert refused["code"] == "plugin.not_enabled"
        assert refused["action"] == {"kind": "plugin.enable", "arguments": {"plugin": "parrot"}}


# --- logs -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_plugin_wrote_can_be_read_while_a_daemon_runs_and_afterwards(owner: Paddock) -> None:
    with daemon(owner) as started:
        started.ask("POST", "/plugins/parrot/call/note", {"text": "remember me"})
        assert "remember me" in owner("plugin", "logs", "parrot").out

    lines = owner("plugin", "logs", "parrot", "--lines", 1, "--json").json["lines"]
    assert len(lines) == 1 and set(lines[0]) == {"at", "line", "level", "message", "fields", "request"}
    assert "remember me" in owner("plugin", "logs", "parrot").out


@pytest.mark.slow
def test_a_log_is_followed_until_interrupted(owner: Paddock) -> None:
    with daemon(owner) as started, owner.start("plugin", "logs", "parrot", "--follow", "--json") as following:
        assert following.stdout is not None
        with again_and_again(lambda: started.ask("POST", "/plugins/parrot/call/note", {"text": "now"})):
            line = json.loads(following.stdout.readline())
        following.send_signal(signal.SIGINT)
        following.communicate(timeout=PATIENCE)

        assert "now" in line["line"]
        assert following.returncode == 130


@pytest.mark.slow
def test_an_enabled_plugin_that_starts_when_it_is_called_is_not_said_to_be_disabled(
    owner: Paddock, source: Path
) -> None:
    manifest = parrot(source / "later", "later") / "paddock.yaml"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"start": "lazy"}))
    owner.quickly("plugin", "install", manifest.parent, "--yes")
    owner.quickly("plugin", "enable", "later", "--no-start")
    with owner.start("serve") as process:
        assert process.stdout is not None
        assert re.match(r"ready: .*, 1 starts when called; listening ", process.stdout.readline())
        assert re.search(r"^later .* enabled +on demand ", owner("plugin", "list").out, re.MULTILINE)
        assert "process      on demand: it starts when it is called" in owner("plugin", "show", "later").out

        owner("call", "later.say", "--params", '{"text": "hi"}')
        assert re.search(r"^later .* enabled +running ", owner("plugin", "list").out, re.MULTILINE)
        owner("plugin", "disable", "later")
        assert re.search(r"^later .* disabled +- ", owner("plugin", "list").out, re.MULTILINE)
        process.terminate()
        process.communicate(timeout=PATIENCE)

    owner.quickly("plugin", "enable", "later", "--no-start")
    with daemon(owner) as started:
        assert started.told(event="plugin", name="later")["on_demand"] is True
        assert started.told(event="ready")["on_demand"] == 1
