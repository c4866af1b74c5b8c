"""Real plugins in real learning cages: what they try is seen, and nothing more is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.cage.daemons import Daemon
from tests.cage.network.networked import open_yard

from paddock.cage.observe.observation import NetworkAttempt
from paddock.cage.observe.observer import observe
from paddock.cage.spec import Learning


def observed(daemon: Daemon, script: str, *stand_ins: tuple[str, str], **limits: Any) -> dict[str, Any]:
    return daemon.tell("observe", script=script, capabilities=[], stand_ins=stand_ins, limits=limits)


def attempts(told: dict[str, Any]) -> set[tuple[str, str]]:
    return {(one["use"], one["path"]) for one in told["seen"]["files"]}


TRIES = """
import os, socket, subprocess

def attempt(action, *arguments):
    try:
        print(type(action(*arguments)).__name__)
    except OSError as error:
        print(error.strerror)

attempt(open, "/etc/shadow")
attempt(open, "/srv/made", "w")
attempt(os.stat, "/srv")
attempt(os.access, "/srv/kept", os.W_OK)
attempt(subprocess.run, ["git", "--version"])
os.chdir("/usr")
attempt(open, "relative/../file")
folder = os.open("/", os.O_RDONLY)
attempt(lambda: os.mkdir("beside", dir_fd=folder))
attempt(socket.create_connection, ("127.0.0.1", 5432))
if os.path.exists("/proc/net/if_inet6"):
    attempt(socket.create_connection, ("::ffff:127.0.0.1", 5433))
with socket.create_server(("127.0.0.1", 0)) as server:
    attempt(socket.create_connection, server.getsockname())
"""


@pytest.mark.req("B-21", "allows nothing more")
def test_files_programs_and_addresses_that_a_plugin_tries_are_seen_and_none_of_them_is_allowed(daemon: Daemon) -> None:
    told = observed(daemon, TRIES)

    missing, mapped = "No such file or directory", [5433] if Path("/proc/net/if_inet6").exists() else []
    ports = [5432, *mapped]
    answers = [missing, missing, missing, "bool", missing, missing, "Read-only file system"]
    assert told["printed"].splitlines() == [*answers, *("Connection refused" for _ in ports), "socket"]
    assert {
        ("read", "/etc/shadow"),
        ("write", "/srv/made"),
        ("look", "/srv"),
        ("write", "/srv/kept"),
        ("execute", "/usr/bin/git"),
        ("read", "/usr/file"),
        ("write", "/beside"),
    } <= attempts(told)
    # What listens in the cage itself needs no grant.
    assert told["seen"]["loopback"] == [{"host": "127.0.0.1", "port": port} for port in ports]


def test_what_stands_in_is_empty_and_read_only_and_a_program_does_nothing(daemon: Daemon) -> None:
    script = """
import os, subprocess
print(os.listdir("/opt/place"), repr(open("/opt/file").read()), subprocess.run(["/opt/program"]).returncode)
for path in ("/opt/place/new", "/opt/file", "/opt/program"):
    try:
        open(path, "w")
    except OSError as error:
        print(error.strerror)
"""
    told = observed(daemon, script, ("/opt/place", "directory"), ("/opt/file", "file"), ("/opt/program", "program"))
    first, *others = told["printed"].splitlines()
    assert first == "[] '' 0"
    assert set(others) <= {"Read-only file system", "Permission denied"}
    assert len(others) == 3


def test_a_path_that_changes_after_it_was_read_gains_nothing(daemon: Daemon) -> None:
    """The observer only reads: the walls of the cage decide on what the kernel reads."""
    script = """
import ctypes, os, threading
libc = ctypes.CDLL(None, use_errno=True)
path = ctypes.create_string_buffer(b"/tmp/allowed\\0\\0\\0")
open("/tmp/allowed", "w").close()
stop = False

def swap():
    while not stop:
        path.raw = b"/etc/shadow\\0\\0\\0\\0\\0"
        path.raw = b"/tmp/allowed\\0\\0\\0\\0"

thread = threading.Thread(target=swap)
thread.start()
opened = [descriptor for _ in range(300) if (descriptor := libc.open(path, os.O_RDONLY)) >= 0]
stop = True
thread.join()
print({os.readlink(f"/proc/self/fd/{one}") for one in opened} - {"/tmp/allowed"})
"""
    assert observed(daemon, script, open_files=1024)["printed"] == "set()\n"


@pytest.mark.parametrize("path", ["'x' * 5000", "b'\\xff\\x1b[31m'", "'/' + 'a/' * 1500"])
def test_odd_paths_do_not_stop_the_observer(root_daemon: Daemon, path: str) -> None:
    script = f"import os\nfor path in ({path}, '/srv/after'):\n  try: open(path)\n  except OSError: pass"
    assert ("read", "/srv/after") in attempts(observed(root_daemon, script))


def test_a_plugin_that_names_more_files_than_are_observed_is_ended(root_daemon: Daemon) -> None:
    script = "import os\nfor number in range(10**9):\n  os.path.exists(f'/srv/{number}')"
    told = observed(root_daemon, script)
    assert told["seen"]["flooded"]
    assert told["ended"]["signal"] == 9


def test_processes_that_a_plugin_starts_are_observed_too_and_may_be_killed_at_any_time(daemon: Daemon) -> None:
    script = """
import os, signal
for _ in range(20):
    child = os.fork()
    if not child:
        while True:
            os.path.exists("/srv/child")
    os.path.exists("/srv/parent")
    os.kill(child, signal.SIGKILL)
    os.wait()
"""
    told = observed(daemon, script)
    assert {("look", "/srv/child"), ("look", "/srv/parent")} <= attempts(told)
    assert told["ended"]["code"] == 0


async def test_hosts_are_seen_with_their_names_and_ports_and_nothing_leaves(tmp_path: Path) -> None:
    script = """
granted = (("granted.example.com", 80), ("inside.example.com", 80))
for host, port in (("api.example.com", 443), ("93.184.216.34", 8443), *granted):
    tell(outcome(talk, host, port))
"""
    async with open_yard(tmp_path) as yard:
        yard.world.names |= {"granted.example.com": ["93.184.216.34"], "inside.example.com": ["10.0.0.1"]}
        granted = ("net:granted.example.com:80", "net:inside.example.com:80")
        inside = await yard.start(script, *granted, learning=Learning())
        async with observe(inside.process, "cage-0", yard.network) as observer:
            assert [await inside.told() for _ in range(4)] == ["cut off"] * 4
            await inside.ended()
            found = await observer.finish()
        # The granted one is let through as ever: the world has no server there.
        assert yard.world.dialled == [("93.184.216.34", 80)]
        assert yard.world.asked == ["granted.example.com", "inside.example.com"]
        # What is refused although it is granted needs no grant; and the proxy's own address is not one of this machine.
        assert found.network == (NetworkAttempt("api.example.com", 443), NetworkAttempt("93.184.216.34", 8443))
        assert found.loopback == ()
