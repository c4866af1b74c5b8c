"""What is mounted is what was looked at, even if somebody swaps it in between."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import pytest

from paddock.cage.bwrap.pinned_path import PathPinner, pin_path
from paddock.cage.linux import child_pids


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_pinned_place_stays_the_same_when_a_link_takes_its_name(tmp_path: Path) -> None:
    place, secret = tmp_path.resolve() / "place", tmp_path / "secret"
    for folder in (place, secret):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    held = pin_path(str(place))
    place.rename(tmp_path / "moved")
    place.symlink_to(secret)
    try:
        assert Path(f"/proc/self/fd/{held}/file").read_text() == "place"
    finally:
        os.close(held)


@pytest.mark.parametrize("below", ["", "/inner", "/inner/file"])
def test_a_link_that_has_appeared_on_the_way_is_not_followed(tmp_path: Path, below: str) -> None:
    real = tmp_path.resolve() / "real"
    (real / "inner").mkdir(parents=True)
    (real / "inner" / "file").touch()
    (tmp_path / "link").symlink_to(real)
    before = open_descriptors()
    with pytest.raises(OSError) as refused:
        pin_path(f"{tmp_path.resolve()}/link{below}")
    assert refused.value.errno == errno.ELOOP
    assert open_descriptors() == before


def test_a_place_that_is_gone_or_climbs_is_refused_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_descriptors()
    for path in (f"{tmp_path.resolve()}/gone", f"{tmp_path.resolve()}/../x", "/etc/passwd/x"):
        with pytest.raises(OSError):
            pin_path(path)
    assert open_descriptors() == before


def test_a_pinned_place_is_not_handed_to_other_programs(tmp_path: Path) -> None:
    held = pin_path(str(tmp_path.resolve()))
    try:
        assert not os.get_inheritable(held)
    finally:
        os.close(held)


def test_another_process_pins_the_same_way_and_leaves_nothing_behind(tmp_path: Path) -> None:
    real = tmp_path.resolve() / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    pinning, before = PathPinner(), open_descriptors()
    linked, gone = f"{tmp_path.resolve()}/link", f"{real}/gone"
    with pinning.open([gone, str(real), linked]) as pin:
        place = pin(str(real))
        assert (place.directory, place.owner) == (True, (os.geteuid(), os.getegid()))
        assert os.path.samestat(os.fstat(place.descriptor), real.stat())
        assert not os.get_inheritable(place.descriptor)
        os.close(place.descriptor)
        for path, number in ((linked, errno.ELOOP), (gone, errno.ENOENT)):
            with pytest.raises(OSError) as refused:
                pin(path)
            assert (refused.value.errno, refused.value.filename) == (number, path)
    pinning.close()
    assert open_descriptors() == before


def test_places_that_were_asked_for_and_not_taken_are_let_go(tmp_path: Path) -> None:
    places = [str(tmp_path.resolve() / str(number)) for number in range(100)]
    for place in places:
        Path(place).mkdir()
    pinning, before = PathPinner(), open_descriptors()
    with pinning.open(places) as pin:
        os.close(pin(places[50]).descriptor)
    assert open_descriptors() == before
    with pinning.open(places) as pin:
        for place in places:
            os.close(pin(place).descriptor)
    assert open_descriptors() == before + 1, "who looks is kept for the next cage"
    pinning.close()
    assert open_descriptors() == before


def test_when_the_one_who_looks_is_killed_between_two_cages_the_next_has_another_and_nothing_is_left(
    tmp_path: Path,
) -> None:
    places = [str(tmp_path.resolve() / str(number)) for number in range(30)]
    for place in places:
        Path(place).mkdir()
    pinning, before, ours = PathPinner(), open_descriptors(), child_pids(os.getpid())
    with pinning.open(places[:1]) as pin:
        os.close(pin(places[0]).descriptor)
    (first,) = children_but(ours)
    kill_and_see_it_dead(first)
    with pinning.open(places) as pin:
        for place in places:
            os.close(pin(place).descriptor)
    with pinning.open(places[:1]) as pin:
        os.close(pin(places[0]).descriptor)
    (second,) = children_but(ours)
    assert second != first
    pinning.close()
    assert (open_descriptors(), children_but(ours)) == (before, [])


def test_when_the_one_who_looks_is_killed_in_the_middle_another_goes_on_and_that_once(tmp_path: Path) -> None:
    places = [str(tmp_path.resolve() / str(number)) for number in range(100)]
    for place in places:
        Path(place).mkdir()
    pinning, before, ours = PathPinner(), open_descriptors(), child_pids(os.getpid())
    with pinning.open(places) as pin:
        os.close(pin(places[0]).descriptor)
        kill_and_see_it_dead(children_but(ours)[-1])
        os.close(pin(places[50]).descriptor)
        kill_and_see_it_dead(children_but(ours)[-1])
        with pytest.raises(OSError) as refused:
            pin(places[99])
    assert refused.value.errno == errno.EIO
    with pinning.open(places[:1]) as pin:
        os.close(pin(places[0]).descriptor)
    pinning.close()
    assert (open_descriptors(), children_but(ours)) == (before, [])


def children_but(known: list[int]) -> list[int]:
    return [pid for pid in child_pids(os.getpid()) if pid not in known]


def kill_and_see_it_dead(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
