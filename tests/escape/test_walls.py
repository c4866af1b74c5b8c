"""Every attempt is worth something: without the wall that it runs against, it gets out."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cage import daemons
from tests.escape.edits import NO_LANDLOCK, SHOWN_BY_MISTAKE, Removal, without
from tests.escape.stage import UNHELD, attempts_for, caging, scene, try_in_cage
from tests.escape.unshown import NOT_SHOWN
from tests.escape.walls import REMOVALS, table

_PAIRS = [(removal, way) for removal in REMOVALS for way in removal.ways]
# In the ordinary run a diagonal of the table: a few walls, each kind of cage among them. All of them run with --all.
_STEP = 7
WAYS = [
    pytest.param(removal, way, id=f"{removal.name} ({way})", marks=() if at % _STEP == 0 else pytest.mark.slow)
    for at, (removal, way) in enumerate(_PAIRS)
]


@pytest.fixture
def sources() -> Iterator[Path]:
    """A place for changed sources that an ordinary user may read, which pytest's own folders are not."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize(("removal", "way"), WAYS)
def test_without_its_wall_an_attempt_gets_out(
    removal: Removal, way: str, sources: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "SOURCES", without(removal, sources))
    ordinary, warm = not removal.root, way == "warm"
    with scene(ordinary=ordinary) as around, caging(ordinary=ordinary, warm=warm) as daemon:
        outcomes = try_in_cage(daemon, around, removal.gets_out, granted=way == "granted", warm=warm)
    assert {sentence: outcome.told for sentence, outcome in outcomes.items() if not outcome.out} == {}


def test_a_file_that_is_shown_by_mistake_still_cannot_be_read(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daemons, "SOURCES", without(Removal("the view", (SHOWN_BY_MISTAKE,), ()), sources))
    attempt = "read a world-readable file of the host"
    with scene(ordinary=True) as around, caging(ordinary=True, warm=False) as daemon:
        outcome = try_in_cage(daemon, around, [attempt])[attempt]
    assert (outcome.out, outcome.told) == (False, "EACCES"), "not ENOENT: it is there, and Landlock holds it"


def test_without_both_walls_it_can(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = Removal("the view and Landlock", (SHOWN_BY_MISTAKE, NO_LANDLOCK), ())
    monkeypatch.setattr(daemons, "SOURCES", without(both, sources))
    attempt = "read a world-readable file of the host"
    with scene(ordinary=True) as around, caging(ordinary=True, warm=False) as daemon:
        assert try_in_cage(daemon, around, [attempt])[attempt].out


def test_every_attempt_gets_out_somewhere_or_it_is_said_why_not() -> None:
    every = {*attempts_for("cold"), *attempts_for("granted")}
    shown = {sentence for removal in REMOVALS for sentence in removal.gets_out}
    excused = {sentence for sentences in NOT_SHOWN.values() for sentence in sentences}
    assert every == shown | excused | UNHELD.keys()
    assert not shown & excused


def test_the_documentation_shows_what_each_wall_stops() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "cage.md").read_text(encoding="utf-8")
    assert table() in page
