"""What a unit of work about approvals has in its hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paddock.core.clock import Clock, Random
from paddock.core.event import Publish
from paddock.core.ids import Tenant, new_id
from paddock.store.database import Transaction

PublishIn = Callable[[Transaction, Tenant, str | None], Publish]
"""The seam through which a unit of work tells what it did for a tenant, and to which call that belongs; kept with the
work, or neither is."""


@dataclass(frozen=True, slots=True)
class Unit:
    """One transaction of one tenant, at one moment."""

    tx: Transaction
    tenant: Tenant
    now: str
    clock: Clock
    random: Random
    publish_in: PublishIn

    def publish(self, call: str | None = None) -> Publish:
        """Where to tell what this did; `call` is the one that it is about."""
        return self.publish_in(self.tx, self.tenant, call)

    def new_id(self, prefix: str) -> str:
        return new_id(prefix, self.clock, self.random)
