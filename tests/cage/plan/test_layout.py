"""However grants lie inside each other, the fewest binds show what all of them together would."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.cage.plan.pretend import PretendMachine

from paddock.cage.plan.mount_layout import MountLayout, is_below, parent_directories
from paddock.cage.spec import BindMount, SymbolicLink

PLACES = [f"/w{''.join(parts)}" for parts in (
    (), ("/a",), ("/b",), ("/a/a",), ("/a/b",), ("/b/a",), ("/a/a/a",), ("/a/a/b",), ("/a/b/a",), ("/b/a/b",),
)]  # fmt: skip
MACHINE = PretendMachine(dict.fromkeys(PLACES, "."))


def seen(path: str, binds: dict[str, bool], covers: set[str]) -> str:
    """How a path looks where these are mounted from the outside in."""
    nearest = next((place for place in (path, *parent_directories(path)) if place in binds or place in covers), None)
    return "nothing" if nearest is None or nearest not in binds else "writable" if binds[nearest] else "readable"


@given(st.lists(st.tuples(st.sampled_from(PLACES), st.booleans())), st.sets(st.sampled_from(PLACES)))
def test_every_place_looks_as_the_nearest_grant_says(shown: list[tuple[str, bool]], hidden: set[str]) -> None:
    layout = MountLayout(MACHINE, hidden)
    wanted: dict[str, bool] = {}
    for path, writable in shown:
        layout.show(path, writable=writable)
        wanted[path] = wanted.get(path, False) or writable
    binds, _, covers = layout.build()
    made = {bind.target: bind.writable for bind in binds}
    for path in PLACES:
        assert seen(path, made, set(covers)) == seen(path, wanted, hidden)
        assert layout.shows(path) == (seen(path, wanted, hidden) != "nothing")
    assert set(made.items()) <= set(wanted.items())


@given(st.sets(st.sampled_from(PLACES)), st.sampled_from(PLACES))
def test_a_link_is_made_only_where_no_tree_of_the_host_has_it_already(shown: set[str], where: str) -> None:
    layout = MountLayout(MACHINE)
    for path in shown:
        layout.show(path)
    layout.add_links([SymbolicLink(f"{where}/link", "elsewhere")])
    _, links, _ = layout.build()
    assert (links == ()) == any(is_below(where, path) for path in shown)


def test_what_stands_at_another_path_is_never_taken_for_what_is_around_it() -> None:
    layout = MountLayout(MACHINE)
    layout.show("/w")
    layout.add_bind(BindMount("/w/b", "/w/a"))
    assert layout.build()[0] == (BindMount("/w", "/w"), BindMount("/w/b", "/w/a"))
