"""What `paddock ledger erase` does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paddock.cli.opening import at_this_machine, reading
from paddock.cli.principals import unit_in
from paddock.core.ids import Tenant
from paddock.gate.effects.forgetting import forget_people
from paddock.gate.quotas import forget_use
from paddock.ledger.erase import known_as
from paddock.policy.forgetting import Forgotten, forget
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Erased:
    """What was erased, and the file in which it can still be found, where there is one."""

    forgotten: Forgotten
    left_in: Path | None


def erase_now(tenant: str, principal: str, reason: str) -> Erased:
    """Erase; it is recorded as the deed of whoever is logged in.

    Raises:
        NotFound: nothing tells of them.
    """
    by = at_this_machine()
    with reading() as host:
        store = host.plugins.of(Tenant(tenant))

        def unit(tx: Transaction) -> Forgotten:
            names = known_as(tx, tenant, principal)
            beside = forget_use(tx, tenant, names) + forget_people(tx, tenant, names, store.now())
            return forget(unit_in(store, tx), principal, by=by, explanation=reason, beside=beside)

        forgotten = store.database.write(unit)
        return Erased(forgotten, store.database.empty_log())
