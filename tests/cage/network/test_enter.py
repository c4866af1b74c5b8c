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

from paddock.cage.network.enter import MOST_SOCKETS, CannotEnter, prepare_network
from paddock.cage.network.listeners import handed_over, wanted
from paddock.cage.plan.addresses import plan_network
from paddock.cage.process_tree import children
from paddock.cage.spec import Reach

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
        [Reach("a.example.test", 443), Reach("b.example.test", None), Reach("[fd00::1]", None), Reach("10.0.0.1", 80)]
    )
    with empty_network() as pid:
        sockets = prepare_network(pid, plan)
    made = [one.getsockname()[:2] for one in sockets]
    assert not any(one.get_inheritable() for one in sockets)
    for one in sockets:
        one.close()
    assert made == [(one.address, one.port) for one in wanted(plan)]
    assert [one.purpose for one in wanted(plan)] == ["host", "host", "redirect", "redirect", "dns"]


def test_a_machine_without_ipv6_has_everything_else() -> None:
    plan = plan_network([Reach("*", None)])
    with empty_network(first="echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6") as pid:
        without = prepare_network(pid, plan)
    with empty_network() as pid:
        with_both = prepare_network(pid, plan)
    for one in (*without, *with_both):
        one.close()
    assert (len(without), len(with_both)) == (2, 3)
    assert [one.purpose for one in handed_over(plan, 2) or ()] == ["redirect", "dns"]
    assert [one.purpose for one in handed_over(plan, 3) or ()] == ["redirect", "redirect", "dns"]
    assert handed_over(plan, 4) is None


def test_a_plan_without_network_enters_nothing() -> None:
    assert prepare_network(os.getpid(), plan_network([])) == []


def test_the_hosts_own_network_is_never_entered() -> None:
    with pytest.raises(CannotEnter, match="no network of its own"):
        prepare_network(os.getpid(), plan_network([Reach("a.example.test", 443)]))


def test_a_process_that_is_gone_is_told_as_such() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    with pytest.raises(CannotEnter, match="ended before"):
        prepare_network(process.pid, plan_network([Reach("a.example.test", 443)]))


def test_a_loopback_that_nobody_raises_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paddock.cage.network.enter._LOOPBACK_SECONDS", 0.1)
    with empty_network(up=False) as pid, pytest.raises(CannotEnter, match="did not come up"):
        prepare_network(pid, plan_network([Reach("a.example.test", 443)]))


def test_more_hosts_than_can_be_handed_over_are_refused_with_a_way_out() -> None:
    plan = plan_network(Reach(f"h{n}.example.test", 443) for n in range(MOST_SOCKETS + 1))
    with pytest.raises(CannotEnter) as refusal:
        prepare_network(os.getpid(), plan)
    assert refusal.value.code == "cage.too_many_hosts"
    assert "net:api.example.com:*" in refusal.value.hint


def test_where_descriptors_run_out_it_is_refused_and_nothing_is_left() -> None:
    plan = plan_network(Reach(f"h{n}.example.test", 443) for n in range(20))
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with empty_network() as pid:
        before = held()
        free = os.dup(0)
        os.close(free)
        try:
            for left in (0, 1, 2, 10):
                resource.setrlimit(resource.RLIMIT_NOFILE, (free + left, hard))
                with pytest.raises(CannotEnter) as refusal:
                    prepare_network(pid, plan)
                assert refusal.value.code == "cage.no_descriptors"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert held() == before


def held() -> tuple[int, list[int]]:
    """How many descriptors we have, and which children."""
    return len(list(Path("/proc/self/fd").iterdir())), sorted(children(os.getpid()))


def test_no_child_and_no_descriptor_is_left() -> None:
    with empty_network() as pid:
        before = held()
        for _ in range(5):
            for one in prepare_network(pid, plan_network([Reach("a.example.test", 443)])):
                one.close()
        assert held() == before


@pytest.mark.req("G-48")
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
