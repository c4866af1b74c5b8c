"""Who gets how many places, as arithmetic."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from paddock.queue.claimants import Claimant, fair_shares, saturated_claimants

ANN, BOB, CAT = (Claimant(tenant, "post") for tenant in ("ann", "bob", "cat"))
MANY = [Claimant(f"t{number}", "post") for number in range(8)]
COUNTS = st.dictionaries(st.sampled_from(MANY), st.integers(1, 100))


def test_who_is_alone_gets_half_and_several_get_as_much_as_stays_free() -> None:
    assert fair_shares({ANN: 100}, {}, 16) == {ANN: 8}
    assert fair_shares({ANN: 100, BOB: 100, CAT: 1}, {}, 16) == {ANN: 5, BOB: 5, CAT: 1}
    assert fair_shares({ANN: 100, BOB: 3}, {ANN: 8}, 16) == {BOB: 3}
    assert fair_shares({ANN: 1}, {}, 1) == {ANN: 1}


@given(waiting=COUNTS, held=COUNTS, places=st.integers(1, 32))
def test_nobody_gets_more_than_it_has_to_do_or_than_there_is_and_whoever_has_none_gets_one_while_two_are_free(
    waiting: dict[Claimant, int], held: dict[Claimant, int], places: int
) -> None:
    given_out = fair_shares(waiting, held, places)

    free = places - sum(held.values())
    assert sum(given_out.values()) <= max(free, 0)
    assert all(count <= waiting[one] for one, count in given_out.items())
    left = free - sum(given_out.values())
    for one in waiting:
        if one not in held and one not in given_out:
            assert left <= 0, f"{one} has none, and {left} are free"


@given(held=COUNTS, places=st.integers(1, 32))
def test_those_are_full_that_get_nothing_however_much_they_have_to_do(held: dict[Claimant, int], places: int) -> None:
    waiting = dict.fromkeys(held, 100)
    stuck = saturated_claimants(held, places)
    assert not set(stuck) & set(fair_shares(waiting, held, places))
    assert bool(set(held) - set(stuck)) == bool(fair_shares(waiting, held, places))
