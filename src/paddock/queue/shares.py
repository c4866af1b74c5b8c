"""How many places of a worker each claimant gets; pure. A claimant is whatever one tenant wants done of one kind.

Nobody has more places than it leaves free: work that hangs leaves some to others, and who is alone gets half
of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Claimant(NamedTuple):
    """Who shares the places."""

    tenant: str
    kind: str


def shares(waiting: Mapping[Claimant, int], held: Mapping[Claimant, int], places: int) -> dict[Claimant, int]:
    """How many more places each gets: one after the other, whoever has the fewest first.

    Args:
        waiting: How much each has to do, and by this order who comes first of those that have as many places.
        held: How many places each has.
        places: How many there are in all.
    """
    has = {one: held.get(one, 0) for one in waiting}
    given = dict.fromkeys(waiting, 0)
    for free in range(places - sum(held.values()), 0, -1):
        wants = [one for one in waiting if given[one] < waiting[one] and has[one] < free]
        if not wants:
            break
        first = min(wants, key=has.__getitem__)
        has[first] += 1
        given[first] += 1
    return {one: count for one, count in given.items() if count}


def full(held: Mapping[Claimant, int], places: int) -> Collection[Claimant]:
    """Those that get no further place for now."""
    free = places - sum(held.values())
    return [one for one, count in held.items() if count >= free]
