"""Fairness: how many jobs of each tenant and kind run at once. Pure functions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Claimant(NamedTuple):
    """A tenant and job kind, which compete for slots."""

    tenant: str
    kind: str


def fair_shares(waiting: Mapping[Claimant, int], held: Mapping[Claimant, int], slots: int) -> dict[Claimant, int]:
    """Return how many more slots each claimant gets: one at a time, to the claimant with the fewest.

    Args:
        waiting: How many jobs of each claimant wait. Ties go to the earlier claimant in this order.
        held: How many slots each claimant has.
        slots: How many slots there are in all.
    """
    slots_used = {claimant: held.get(claimant, 0) for claimant in waiting}
    granted = dict.fromkeys(waiting, 0)
    for free in range(slots - sum(held.values()), 0, -1):
        eligible = [
            claimant for claimant in waiting if granted[claimant] < waiting[claimant] and slots_used[claimant] < free
        ]
        if not eligible:
            break
        first = min(eligible, key=slots_used.__getitem__)
        slots_used[first] += 1
        granted[first] += 1
    return {claimant: count for claimant, count in granted.items() if count}


def saturated_claimants(held: Mapping[Claimant, int], slots: int) -> Collection[Claimant]:
    """Return the claimants that get no further slot for now."""
    free = slots - sum(held.values())
    return [one for one, count in held.items() if count >= free]
