"""Commands and the daemon they ask: what is its trouble, what is theirs, and what both mean by the same words."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.commands import PATIENCE, Paddock
from fixtures.daemons import Daemon, again_and_again, daemon
from fixtures.prepared_homes import enabled_parrot, prepare_home
from paddock.cli.client.api_client import ApiClient, running_daemon
from paddock.cli.client.unix_socket_transport import UnixSocketTransport
from paddock.config.directories import find_directories
from paddock.core.errors import Busy, CallerError, Denied
from paddock.rpc.framing import MAX_STRUCTURE_TOKENS


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Generator[Daemon, None, None]:
    folder = tmp_path_factory.mktemp("asked")
    paddock = Paddock(folder / "home")
    prepare_home(paddock, enabled_parrot)
    with daemon(paddock) as running:
        yield running


# --- output that nobody takes -----------------------------------------------------------------------------------------


def test_following_a_log_ends_quietly_when_its_reader_goes(started: Daemon) -> None:
    with started.paddock.start("plugin", "logs", "parrot", "--follow") as following:
        assert following.stdout is not None and following.stderr is not None
        with again_and_again(lambda: started.ask("POST", "/plugins/parrot/call/note", {"text": "now"})):
            following.stdout.readline()
            following.stdout.close()
            assert following.wait(PATIENCE) == 141
        assert following.stderr.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize(("way", "lost"), [("alone", "closed"), ("served", "full")])
def test_a_call_goes_on_when_its_progress_cannot_be_shown(started: Daemon, tmp_path: Path, lost: str, way: str) -> None:
    paddock = started.paddock
    if way == "alone":
        paddock = Paddock(tmp_path / "home")
        prepare_home(paddock, enabled_parrot)
    reading, writing = os.pipe()
    os.close(reading)
    with Path("/dev/full").open("w") as full, os.fdopen(writing, "w") as closed:
        said = subprocess.run(
            [sys.executable, "-m", "paddock.cli", "call", "parrot.count"],
            stdout=subprocess.PIPE,
            stderr=full if lost == "full" else closed,
            env=paddock.environment,
            timeout=PATIENCE,
        )

    assert (said.returncode, json.loads(said.stdout)) == (0, {"counted": 3})


# --- whether there is a daemon ----------------------------------------------------------------------------------------


@pytest.fixture
def crowded(tmp_path: Path) -> Generator[Path, None, None]:
    """A home whose socket has somebody behind it who lets nobody in."""
    (tmp_path / "home" / "run").mkdir(parents=True)
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as first:
        listening.bind(str(tmp_path / "home" / "run" / "paddock.sock"))
        listening.listen(0)
        first.connect(str(tmp_path / "home" / "run" / "paddock.sock"))
        yield tmp_path / "home"


def test_a_daemon_that_lets_nobody_in_is_not_taken_for_none(crowded: Path) -> None:
    said = Paddock(crowded)("plugin", "list", "--json", code=7)

    assert said.error["code"] == "daemon.silent"
    with pytest.raises(Busy):
        running_daemon(find_directories({"PADDOCK_HOME": str(crowded)}, crowded))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_the_home_of_somebody_else_is_called_that(started: Daemon) -> None:
    directories = find_directories({"PADDOCK_HOME": str(started.paddock.home)}, started.paddock.home)
    child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        os.setresuid(65534, 65534, 65534)
        try:
            running_daemon(directories)
        except Denied as error:
            os._exit(0 if "root" in error.message and error.error_code == "daemon.not_yours" else 1)
        finally:
            os._exit(2)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


# --- what is sent -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["ü" * 400_000, "🦜" * 200_000, "x" * 1_000_000])
def test_parameters_that_fit_are_taken_whatever_characters_they_have(
    started: Daemon, tmp_path: Path, text: str
) -> None:
    file = tmp_path / "params.json"
    file.write_text(json.dumps({"text": text}, ensure_ascii=False))

    assert started.paddock("call", "parrot.say", "-p", f"@{file}").json["said"] == text


def test_what_the_daemon_refuses_while_it_is_still_sent_is_told_in_its_words(started: Daemon) -> None:
    with pytest.raises(CallerError) as refused:
        ApiClient(UnixSocketTransport(started.socket)).post(
            "/calls", {"name": "parrot.say", "params": {"text": "x" * 8_000_000}}
        )

    assert refused.value.error_code == "http.body_too_large"


@pytest.mark.parametrize(
    "written",
    [
        '{"text": NaN}',
        '{"text": -Infinity}',
        '{"text": 1e999}',
        '{"text": 18446744073709551616}',
        '{"text": -9223372036854775809}',
        '{"text": "\\ud800"}',
        '{"text": ' + "[" * 100 + "]" * 100 + "}",
        '{"text": [' + "1," * MAX_STRUCTURE_TOKENS + "1]}",
        '{"text": "' + "x" * 1_048_560 + '"}',
    ],
    ids=["nan", "infinity", "infinite", "big", "small", "surrogate", "deep", "wide", "large"],
)
def test_parameters_that_no_plugin_can_be_sent_are_refused_with_and_without_a_daemon(
    started: Daemon, tmp_path: Path, written: str
) -> None:
    file = tmp_path / "params.json"
    file.write_text(written)

    through_it = started.paddock.quickly("call", "parrot.say", "-p", f"@{file}", "--json", code=6).error
    without = Paddock(tmp_path / "home").quickly("call", "parrot.say", "-p", f"@{file}", "--json", code=6).error

    assert through_it == without
    assert without["code"] == "invalid_params"


def test_the_largest_whole_numbers_arrive_as_they_are(started: Daemon) -> None:
    said = started.paddock.quickly(
        "call", "parrot.burn", "-p", '{"seconds": 0, "n": [18446744073709551615, -9223372036854775808]}'
    )

    assert said.json == {}
