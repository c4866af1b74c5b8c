"""Which sockets stand in a cage's network, and in which order they travel. Pure.

Whoever enters the cage makes them in this order, and the daemon knows from the same plan what each one is for: the
descriptors themselves say nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from paddock.cage.plan.addresses import DNS_ADDRESS, DNS_PORT, LOOPBACK, NetworkPlan

LOOPBACK6 = "::1"

Purpose = Literal["host", "redirect", "dns"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One socket inside the cage: a listener for one host, the one for all that is redirected, or the name server's."""

    purpose: Purpose
    address: str
    port: int
    host: str = ""  # whom a connection there means; only for `host`


def wanted(plan: NetworkPlan) -> tuple[Wanted, ...]:
    """Every socket that a plan needs, in the order in which they are handed over."""
    found = [Wanted("host", one.address, one.port, one.host) for one in plan.listen]
    if plan.redirect_port is not None:
        # The kernel redirects to loopback of the same kind, so each kind that is redirected is heard on its own.
        if any(":" not in prefix for prefix in plan.redirect):
            found.append(Wanted("redirect", LOOPBACK, plan.redirect_port))
        if any(":" in prefix for prefix in plan.redirect):
            found.append(Wanted("redirect", LOOPBACK6, plan.redirect_port))
    if plan.dns:
        found.append(Wanted("dns", DNS_ADDRESS, DNS_PORT))
    return tuple(found)


def with_ipv6(plan: NetworkPlan) -> NetworkPlan:
    """A plan in which `net:*` means every IPv6 address too; for a machine that has IPv6."""
    if not plan.everything:
        return plan
    return replace(plan, routes=(*plan.routes, "::/0"), redirect=(*plan.redirect, f"!{LOOPBACK6}/128"))


def handed_over(plan: NetworkPlan, count: int) -> tuple[Wanted, ...] | None:
    """What each of so many sockets is for; None where the plan has no such number, with or without IPv6."""
    return next((found for found in map(wanted, (with_ipv6(plan), plan)) if len(found) == count), None)
