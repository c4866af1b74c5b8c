"""What is mounted is what was looked at, even if somebody swaps it in between."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from paddock.cage.cold.pinning import Pinning, pinned


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.req("G-17", "links")
def test_a_pinned_place_stays_the_same_when_a_link_takes_its_name(tmp_path: Path) -> None:
    place, secret = tmp_path.resolve() / "place", tmp_path / "secret"
    for folder in (place, secret):
        folder.mkdir()
        (folder / "file").write_text(folder.name)
    held = pinned(str(place))
    place.rename(tmp_path / "moved")
    place.symlink_to(secret)
    try:
        assert Path(f"/proc/self/fd/{held}/file").read_text() == "place"
    finally:
        os.close(held)


@pytest.mark.req("G-17", "links")
@pytest.mark.parametrize("below", ["", "/inner", "/inner/file"])
def test_a_link_that_has_appeared_on_the_way_is_not_followed(tmp_path: Path, below: str) -> None:
    real = tmp_path.resolve() / "real"
    (real / "inner").mkdir(parents=True)
    (real / "inner" / "file").touch()
    (tmp_path / "link").symlink_to(real)
    before = open_descriptors()
    with pytest.raises(OSError) as refused:
        pinned(f"{tmp_path.resolve()}/link{below}")
    assert refused.value.errno == errno.ELOOP
    assert open_descriptors() == before


def test_a_place_that_is_gone_or_climbs_is_refused_and_leaves_nothing_open(tmp_path: Path) -> None:
    before = open_descriptors()
    for path in (f"{tmp_path.resolve()}/gone", f"{tmp_path.resolve()}/../x", "/etc/passwd/x"):
        with pytest.raises(OSError):
            pinned(path)
    assert open_descriptors() == before


def test_a_pinned_place_is_not_handed_to_other_programs(tmp_path: Path) -> None:
    held = pinned(str(tmp_path.resolve()))
    try:
        assert not os.get_inheritable(held)
    finally:
        os.close(held)


@pytest.mark.req("G-17", "links")
def test_another_process_pins_the_same_way_and_leaves_nothing_behind(tmp_path: Path) -> None:
    real = tmp_path.resolve() / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    pinning, before = Pinning(), open_descriptors()
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
    pinning, before = Pinning(), open_descriptors()
    with pinning.open(places) as pin:
        os.close(pin(places[50]).descriptor)
    assert open_descriptors() == before
    with pinning.open(places) as pin:
        for place in places:
            os.close(pin(place).descriptor)
    assert open_descriptors() == before + 1, "who looks is kept for the next cage"
    pinning.close()
    assert open_descriptors() == before
