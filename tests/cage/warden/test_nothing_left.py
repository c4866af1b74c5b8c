"""Launches by the dozen, given up, or without free descriptors: they leave nothing behind."""

from __future__ import annotations

import resource

from tests.cage.daemons import FOREVER, Daemon, descriptors, eventually, groups_of, mounts, running


def test_fifty_launches_leave_nothing_behind(daemon: Daemon) -> None:
    daemon.tell("end", number=running(daemon, "print('ready')"))
    warden = daemon.warden
    before = (daemon.tell("descriptors"), descriptors(warden), mounts(warden))
    asked = [daemon.ask("launch", script="print('ready')", limits={}, capabilities=[]) for _ in range(50)]
    for number in [daemon.answer(question)["number"] for question in asked]:
        assert daemon.tell("end", number=number)["code"] == 0
    assert (daemon.tell("descriptors"), descriptors(warden), mounts(warden)) == before
    assert daemon.in_cages() == [] and daemon.warden == warden
    assert eventually(lambda: not groups_of(warden))


def test_a_launch_that_is_given_up_half_way_leaves_nothing_behind(daemon: Daemon) -> None:
    daemon.tell("end", number=running(daemon, "print('ready')"))
    warden = daemon.warden
    before = (daemon.tell("descriptors"), descriptors(warden), mounts(warden))
    given_up = [daemon.tell("give_up", script=FOREVER, after=0.002 * step) for step in range(12)]
    assert "cancelled" in given_up
    assert eventually(lambda: daemon.in_cages() == [])
    assert eventually(lambda: (daemon.tell("descriptors"), descriptors(warden), mounts(warden)) == before)
    assert eventually(lambda: not groups_of(warden))


def test_without_free_descriptors_a_launch_is_refused_and_the_daemon_lives_on(daemon: Daemon) -> None:
    running(daemon)
    before = daemon.tell("descriptors")
    for free in (0, 2, 4, 6):
        refused = daemon.tell("launch_with_descriptors", script=FOREVER, free=free)
        assert refused.get("refused") == "cage.no_descriptors", (free, refused)
        assert "ulimit -n" in refused["hint"]
    assert daemon.tell("descriptors") == before
    running(daemon)


def test_a_warden_without_free_descriptors_refuses_and_keeps_the_cages_it_has(root_daemon: Daemon) -> None:
    kept = running(root_daemon)
    warden, before = root_daemon.warden, descriptors(root_daemon.warden)
    _, most = resource.prlimit(warden, resource.RLIMIT_NOFILE)
    for free in range(40):
        # One more each time, so that they run out at every single step of a launch.
        resource.prlimit(warden, resource.RLIMIT_NOFILE, (before + free, most))
        told = root_daemon.tell("launch", script=FOREVER, limits={}, capabilities=[])
        if "number" in told:
            break
        assert told["refused"] == "cage.no_descriptors", (free, told)
        # One fewer when whoever looks at places for it was part of what failed.
        assert eventually(lambda: descriptors(warden) in (before - 1, before))
    assert "number" in told
    root_daemon.tell("kill", number=kept)
    assert root_daemon.tell("end", number=kept)["cause"] == "killed"
    assert root_daemon.warden == warden


def test_even_the_very_first_launch_may_run_out_of_descriptors(daemon: Daemon) -> None:
    told: dict[str, object] = {}
    for free in range(60):
        told = daemon.tell("launch_with_descriptors", script=FOREVER, free=free)
        if "number" in told:
            break
        assert told["refused"] == "cage.no_descriptors", (free, told)
    assert "number" in told
