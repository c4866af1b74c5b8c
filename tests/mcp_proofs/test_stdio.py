"""`paddock mcp` line by line: how it begins, what it carries, how it ends, and what it says of a daemon gone away."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.mcp_proofs.behind import command
from tests.mcp_proofs.talking import HELLO, talk

from fixtures.commands import Paddock
from fixtures.daemons import Daemon, daemon, eventually
from fixtures.mail import mail
from fixtures.page_clients import signed_in

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
COUNT = "slow-count__count"
FOREVER = {"name": COUNT, "arguments": {"to": 1000, "pause_ms": 50}}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Paddock:
    folder = tmp_path_factory.mktemp("lines")
    (folder / "home").mkdir()
    paddock = Paddock(folder / "home")
    paddock.quickly("plugin", "install", EXAMPLES / "slow-count", "--yes")
    paddock.quickly("plugin", "enable", "slow-count", "--no-start")
    return paddock


@pytest.fixture(scope="module")
def served(home: Paddock) -> Generator[Daemon, None, None]:
    with daemon(home) as started:
        yield started


def ended(served: Daemon, status: str, *who: str) -> int:
    """How many calls ended like this, of all or of one principal."""
    one = ("--principal", *who) if who else ()
    told = served.paddock.quickly("ledger", "tail", "-n", "1000", "--type", "call.ended", *one, "--json").json
    return sum(entry["facts"]["status"] == status for entry in told["entries"])


def test_answers_to_all_that_was_asked_come_after_the_last_word_and_nothing_else_is_printed(served: Daemon) -> None:
    with talk(served.paddock) as client:
        assert client.greet()["serverInfo"]["name"] == "paddock"
        for number in (1, "1", 2):  # 1 and "1" are two requests
            client.say(
                id=number,
                method="tools/call",
                params={"name": COUNT, "arguments": {"to": 2 if number == 2 else 1, "pause_ms": 0}},
            )
        client.say(id=3, method="tools/list")
        assert client.hang_up() == 0
        assert client.process.stderr is not None and client.process.stderr.read() == b""
    answers = [(type(one["id"]), one["id"]) for one in client.heard if "result" in one]
    assert sorted(map(str, answers)) == sorted(map(str, [(str, "hello"), (int, 1), (str, "1"), (int, 2), (int, 3)]))
    counted = {
        (type(one["id"]), one["id"]): one["result"]["structuredContent"]["counted"]
        for one in client.heard
        if "structuredContent" in one.get("result", {})
    }
    assert counted == {(int, 1): 1, (str, "1"): 1, (int, 2): 2}


def test_what_is_no_message_is_answered_as_that_and_the_talk_goes_on(served: Daemon) -> None:
    with talk(served.paddock) as client:
        client.write(b"hello?")
        assert client.until(id=None)["error"]["code"] == -32700
        client.write(b"[1]")
        assert client.until(id=None)["error"]["code"] == -32600
        assert client.ask(1, "tools/list")["error"]["code"] == -32600  # not before the handshake
        client.greet()
        assert client.ask(1, "ping")["result"] == {}
        assert client.ask(2, "what/ever")["error"]["code"] == -32601


def test_a_line_without_end_ends_the_talk_and_says_why(served: Daemon) -> None:
    program, arguments, environment = command(served.paddock)
    done = subprocess.run(
        [program, *arguments], env=environment, input=b"x" * 5_000_000, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"a line has more than 4194304 bytes" in done.stderr


@pytest.mark.req("B-01", "the same ledger")
def test_a_cancelled_call_ends_in_the_daemon_and_is_not_answered(served: Daemon) -> None:
    before = ended(served, "cancelled")
    with talk(served.paddock) as client:
        client.greet()
        client.say(id=7, method="tools/call", params={**FOREVER, "_meta": {"progressToken": "p"}})
        assert client.until(method="notifications/progress")["params"]["progressToken"] == "p"
        client.say(method="notifications/cancelled", params={"requestId": 7, "reason": "enough"})
        eventually(lambda: ended(served, "cancelled") == before + 1, "the call goes on")
        assert client.ask(8, "ping")["result"] == {}
        assert client.hang_up() == 0
    assert [one for one in client.heard if one.get("id") == 7] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_and_what_it_carried_too(served: Daemon, number: signal.Signals) -> None:
    before = ended(served, "cancelled")
    with talk(served.paddock) as client:
        client.greet()
        client.say(id=7, method="tools/call", params={**FOREVER, "_meta": {"progressToken": "p"}})
        client.until(method="notifications/progress")
        client.process.send_signal(number)
        assert client.ended() == (0 if number == signal.SIGTERM else 130)
    eventually(lambda: ended(served, "cancelled") == before + 1, "the call goes on")


def test_without_a_daemon_what_waits_says_what_to_start_and_is_answered_from_there(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", mail(tmp_path / "mail"), "--yes")
    paddock.quickly("plugin", "enable", "mail")
    odd = {"name": "mail__odd", "arguments": {}}
    with talk(paddock) as client:
        client.greet()
        told = client.ask(1, "tools/call", **odd)["result"]
        pending, words = told["_meta"]["dev.paddock/approval"], told["content"][0]["text"]
        assert "no daemon runs. Start it with `paddock serve`" in words
        assert f"`paddock approval show {pending['approval']}`" in words
        assert "the link that `paddock login` prints" in words
        assert pending["answerable_by"][0] in words and pending["answerable_by"][0].startswith("local:")
        with daemon(paddock) as started:
            again = client.ask(2, "tools/call", **odd)["result"]
            link = again["_meta"]["dev.paddock/approval"]["link"]
            assert link == "http://{}:{}/approvals/{}".format(*started.tcp, pending["approval"])
            page = signed_in(started, "operator").followed(urlsplit(link).path, answer="yes", scope="once").text
            assert "for this call alone" in page
            eventually(lambda: state(paddock, pending["approval"]) == "consumed", "it was never made")
        assert client.hang_up() == 0


def state(paddock: Paddock, approval: str) -> str:
    return paddock.quickly("approval", "show", approval, "--json").json["state"]


@pytest.mark.req("B-01", "the same ledger")
def test_a_client_acts_as_who_it_was_started_for(served: Daemon) -> None:
    served.paddock.quickly("user", "add", "ann", "--role", "guest")
    with talk(served.paddock, "--as", "user:ann") as client:
        client.greet()
        assert "result" in client.ask(1, "tools/call", name=COUNT, arguments={"to": 1, "pause_ms": 0})
    eventually(lambda: ended(served, "succeeded", "user:ann") == 1, "nobody recorded that it was Ann's")
    with talk(served.paddock, "--as", "user:nobody") as client:
        refused = client.ask(1, "initialize", **HELLO)
    assert refused["error"]["data"]["code"] == "person.not_found"


def test_it_starts_without_what_only_a_host_needs(served: Daemon) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "paddock.cli", "mcp"],
        env=served.paddock.environment,
        input=b'{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{}}\n',
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert b'"id":1' in done.stdout
    imported = set(re.findall(rb"\| +([\w.]+)$", done.stderr, re.MULTILINE))
    assert b"paddock.cli.client.mcp_bridge" in imported
    heavy = {*(b"mcp", b"pydantic", b"apsw", b"cedarpy", b"cryptography", b"psycopg", b"rich")}
    heavy |= {*(b"starlette", b"tomlkit", b"uvicorn", b"yaml", b"paddock.host.host", b"paddock.mcp_server.server")}
    assert imported & heavy == set()


def test_the_example_lists_every_permitted_tool(served: Daemon, tmp_path: Path) -> None:
    program, _, environment = command(served.paddock)
    (tmp_path / "paddock").symlink_to(program)
    path = f"{tmp_path}:{environment['PATH']}"
    done = subprocess.run(
        [sys.executable, EXAMPLES / "call_over_mcp.py"],
        env={**environment, "PATH": path, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stdout.split() == [COUNT, "slow-count__squares"], done.stderr


@pytest.mark.slow
def test_the_example_asks_over_http_with_a_key_and_says_why_one_is_not_taken(served: Daemon) -> None:
    environment = served.paddock.environment
    served.paddock.quickly("user", "add", "hana")
    made = served.paddock.quickly("apikey", "add", "hana", "--json").json
    address = "http://{}:{}/mcp".format(*served.tcp)

    def listed(key: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, EXAMPLES / "call_over_mcp.py"],
            env={**environment, "PADDOCK_KEY": key, "PADDOCK_MCP": address},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    done = listed(made["token"])
    assert done.stdout.split() == [COUNT, "slow-count__squares"], done.stderr
    served.paddock.quickly("apikey", "remove", made["id"], "--yes")
    assert "invalid API key. ask an operator of this host" in listed(made["token"]).stderr


def test_a_daemon_that_goes_away_is_told_of_and_the_talk_goes_on_with_the_next_one(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("plugin", "install", EXAMPLES / "slow-count", "--yes")
    paddock.quickly("plugin", "enable", "slow-count")
    with daemon(paddock) as first, talk(paddock) as client:
        client.greet()
        client.say(id=1, method="tools/call", params={**FOREVER, "_meta": {"progressToken": "p"}})
        client.until(method="notifications/progress")
        first.stop(signal.SIGKILL)
        lost = client.until(id=1)["error"]
        assert lost["data"]["code"] == "daemon.lost" and "paddock serve" in lost["data"]["hint"]
        assert client.ask(2, "tools/list")["error"]["data"]["code"] == "daemon.not_running"

        with daemon(paddock):
            assert client.until(method="notifications/tools/list_changed")
            called = client.ask(3, "tools/call", name=COUNT, arguments={"to": 1, "pause_ms": 0})
            assert called["result"]["structuredContent"] == {"counted": 1}
            assert client.hang_up() == 0


def test_without_a_daemon_too_somebody_who_may_not_act_any_more_is_let_to_nothing_from_then_on(tmp_path: Path) -> None:
    paddock = Paddock(tmp_path / "home")
    paddock.quickly("user", "add", "ann")
    with talk(paddock, "--as", "user:ann") as client:
        client.greet()
        assert client.ask(1, "tools/list")["result"]["tools"] == []
        paddock.quickly("user", "disable", "ann")
        assert client.ask(2, "tools/list")["error"]["data"]["code"] == "principal.ended"
