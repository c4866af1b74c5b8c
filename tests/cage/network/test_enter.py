"""Entering a cage's network: as any user, and never by mistake somebody else's."""

from __future__ import annotations

import json
import os
import resource
import shutil
import site
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from paddock.cage.linux import child_pids
from paddock.cage.network.netns import (
    MAX_SOCKETS,
    NetworkSetupFailed,
    match_sockets,
    open_cage_sockets,
    planned_sockets,
)
from paddock.cage.plan.network_plan import plan_network
from paddock.net.egress import EgressGrant

ORDINARY = 12345  # a user that nobody is
RAISE_LOOPBACK = (
    'import fcntl, socket, struct; fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sH14x", b"lo", 0x49))'
)
REPOSITORY = Path(__file__).parents[3]


@contextmanager
def empty_network(*, up: bool = True, first: str = ":") -> Iterator[int]:
    """A process that waits in user and network namespaces of its own; `first` is a line for the shell there."""
    raising = f"{sys.executable} -c '{RAISE_LOOPBACK}' && " if up else ""
    words = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", f"{first} && {raising}echo ready && exec cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process.pid
        finally:
            process.kill()


def test_sockets_come_in_the_order_of_the_plan() -> None:
    plan = plan_network(
        [
            EgressGrant("a.example.test", 443),
            EgressGrant("b.example.test", None),
            EgressGrant("[fd00::1]", None),
            EgressGrant("10.0.0.1", 80),
        ]
    )
    with empty_network() as pid:
        sockets = open_cage_sockets(pid, plan)
    made = [one.getsockname()[:2] for one in sockets]
    assert not any(one.get_inheritable() for one in sockets)
    for one in sockets:
        one.close()
    assert made == [(one.address, one.port) for one in planned_sockets(plan)]
    assert [one.purpose for one in planned_sockets(plan)] == ["host", "host", "redirect", "redirect", "dns"]


def test_a_machine_without_ipv6_has_everything_else() -> None:
    plan = plan_network([EgressGrant("*", None)])
    with empty_network(first="echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6") as pid:
        without = open_cage_sockets(pid, plan)
    with empty_network() as pid:
        with_both = open_cage_sockets(pid, plan)
    for one in (*without, *with_both):
        one.close()
    assert (len(without), len(with_both)) == (2, 3)
    assert [one.purpose for one in match_sockets(plan, 2) or ()] == ["redirect", "dns"]
    assert [one.purpose for one in match_sockets(plan, 3) or ()] == ["redirect", "redirect", "dns"]
    assert match_sockets(plan, 4) is None


def test_a_plan_without_network_enters_nothing() -> None:
    assert open_cage_sockets(os.getpid(), plan_network([])) == []


def test_the_hosts_own_network_is_never_entered() -> None:
    with pytest.raises(NetworkSetupFailed, match="no network of its own"):
        open_cage_sockets(os.getpid(), plan_network([EgressGrant("a.example.test", 443)]))


def test_a_process_that_is_gone_is_told_as_such() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(NetworkSetupFailed, match="ended before"):
        open_cage_sockets(process.pid, plan_network([EgressGrant("a.example.test", 443)]))


def test_a_loopback_that_nobody_raises_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.cage.network.netns._LOOPBACK_TIMEOUT_S", 0.1)
    with empty_network(up=False) as pid, pytest.raises(NetworkSetupFailed, match="did not come up"):
        open_cage_sockets(pid, plan_network([EgressGrant("a.example.test", 443)]))


def test_more_hosts_than_can_be_handed_over_are_refused_with_a_way_out() -> None:
    plan = plan_network(EgressGrant(f"h{n}.example.test", 443) for n in range(MAX_SOCKETS + 1))
    with pytest.raises(NetworkSetupFailed) as refusal:
        open_cage_sockets(os.getpid(), plan)
    assert refusal.value.code == "cage.too_many_hosts"
    assert "net:api.example.com:*" in refusal.value.hint


def test_where_descriptors_run_out_it_is_refused_and_nothing_is_left() -> None:
    plan = plan_network(EgressGrant(f"h{n}.example.test", 443) for n in range(20))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with empty_network() as pid:
        before = held()
        free = os.dup(0)
        os.close(free)
        try:
            for left in (0, 1, 2, 10):
                resource.setrlimit(resource.RLIMIT_NOFILE, (free + left, hard))
                with pytest.raises(NetworkSetupFailed) as refusal:
                    open_cage_sockets(pid, plan)
                assert refusal.value.code == "cage.no_descriptors"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert held() == before


def held() -> tuple[int, list[int]]:
    """How many descriptors we have, and which children."""
    return len(list(Path("/proc/self/fd").iterdir())), sorted(child_pids(os.getpid()))


def test_no_child_and_no_descriptor_is_left() -> None:
    with empty_network() as pid:
        before = held()
        for _ in range(5):
            for one in open_cage_sockets(pid, plan_network([EgressGrant("localhost", 443)])):
                one.close()
        assert held() == before


def test_an_ordinary_users_plugins_have_the_same_network() -> None:
    if os.geteuid() != 0:
        pytest.skip("the other tests are run by an ordinary user already")
    python = shutil.which("python3", path="/usr/local/bin:/usr/bin")
    if python is None:
        pytest.skip("no interpreter here can be run by an ordinary user")
    packages = [REPOSITORY / "src", REPOSITORY / "tests", REPOSITORY, *site.getsitepackages()]
    with tempfile.TemporaryDirectory() as folder:
        os.chown(folder, ORDINARY, ORDINARY)
        as_user = ["setpriv", f"--reuid={ORDINARY}", f"--regid={ORDINARY}", "--clear-groups"]
        run = subprocess.run(
            [*as_user, python, str(Path(__file__).with_name("ordinary_network.py")), folder],
            env={"PATH": "/usr/bin:/bin", "PYTHONPATH": ":".join(map(str, packages)), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert run.returncode == 0, run.stderr.decode()
    assert json.loads(run.stdout) == {
        "user": ORDINARY,
        "heard": ["heard hello"] * 3 + ["no such name", "ECONNREFUSED", "ENETUNREACH"],
        "connected": 3,
    }
