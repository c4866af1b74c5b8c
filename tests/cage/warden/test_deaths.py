"""What is left when the daemon or its warden is killed, and who clears it away."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Sequence

from tests.cage.daemons import FOREVER, Daemon, eventually, gone, groups_of, kill_hard, running
from tests.cage.plan.pretend import caged

from paddock.cage.linux import child_pids
from paddock.cage.plan.bwrap_arguments import build_command
from paddock.cage.zygote.warm_start import plan_warm_start


def test_when_the_daemon_is_killed_nothing_is_left_two_seconds_later(daemon: Daemon) -> None:
    for _ in range(3):
        running(daemon)
    left = daemon.everything()
    assert len(daemon.in_cages()) == 3 * 3
    kill_hard(daemon.process.pid)
    assert gone(left, within=2)


def test_when_the_daemon_is_killed_while_it_launches_nothing_is_left_either(daemon: Daemon) -> None:
    running(daemon)
    for _ in range(3):
        daemon.ask("launch", script=FOREVER, limits={}, capabilities=[])
    assert eventually(lambda: len(daemon.everything()) > 4)
    left = daemon.everything()
    kill_hard(daemon.process.pid)
    assert gone(left, within=2)


def test_when_the_warden_is_killed_its_plugins_are_gone_and_the_next_launch_has_a_new_one(daemon: Daemon) -> None:
    first, second = running(daemon), running(daemon)
    old, left = daemon.warden, daemon.everything()
    kill_hard(old)
    for number in (first, second):
        ended = daemon.tell("end", number=number)
        assert (ended["signal"], ended["cause"]) == (signal.SIGKILL, "warden_lost")
    assert gone(left, within=2)
    third = running(daemon)
    assert daemon.warden != old
    daemon.tell("kill", number=third)
    daemon.tell("end", number=third)


def test_a_warden_that_dies_again_and_again_is_not_started_for_ever(root_daemon: Daemon) -> None:
    for _ in range(5):
        running(root_daemon)
        kill_hard(root_daemon.warden)
        assert eventually(lambda: not root_daemon.everything())
    assert root_daemon.refusal(FOREVER)["refused"] == "cage.warden_failed"


def test_what_a_killed_warden_left_in_the_kernel_is_cleared_away_by_the_next(root_daemon: Daemon) -> None:
    running(root_daemon)
    old = root_daemon.warden
    assert groups_of(old)
    kill_hard(old)
    assert eventually(lambda: not root_daemon.everything())
    running(root_daemon)
    assert not groups_of(old)


def test_half_a_bubblewrap_that_a_killed_warden_left_is_ended_by_the_next(root_daemon: Daemon) -> None:
    ours = [build_command(caged()), build_command(caged(command=("bash", "./tool.sh"))), zygote_command()]
    others, abandoned = half_a_bubblewrap(["/bin/other.py"]), [half_a_bubblewrap(words) for words in ours]
    try:
        running(root_daemon)
        assert gone(abandoned, within=10)
        assert not gone([others], within=0), "what only looks like it is not ours to end"
    finally:
        for pid in (others, *abandoned):
            with contextlib.suppress(ProcessLookupError):
                kill_hard(pid)


def zygote_command() -> tuple[str, ...]:
    warm = plan_warm_start(caged(), "/srv/paddock/plugins")
    assert warm is not None
    return warm.zygote.command


def half_a_bubblewrap(program: Sequence[str]) -> int:
    """The inner process of one whose outer is killed; without --die-with-parent it stays."""
    asleep = ["--", "sh", "-c", "sleep 600", *program]
    words = ["bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", *asleep]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL) as outer:
        assert eventually(lambda: bool(child_pids(outer.pid)))
        (inner,) = child_pids(outer.pid)
        assert eventually(lambda: bool(child_pids(inner)))
        kill_hard(outer.pid)
    return inner
