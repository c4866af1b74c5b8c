"""The implementation of `paddock ledger erase`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from paddock.approvals.erasure import ErasureResult, erase_person
from paddock.cli.client.local_store import local_principal, open_for_read
from paddock.cli.client.store_access import approval_transaction
from paddock.core.ids import Tenant
from paddock.gate.admission.quotas import erase_usage
from paddock.gate.idempotency.retention import erase_people
from paddock.ledger.erase import principal_aliases
from paddock.store.database import Transaction


@dataclass(frozen=True, slots=True)
class ErasureReport:
    """The result of an erasure, and the log file that still contains the erased data, if any."""

    forgotten: ErasureResult
    remaining_log: Path | None


def erase_principal(tenant: str, principal: str, reason: str) -> ErasureReport:
    """Erase a principal from the ledger, recorded as done by the local principal.

    Raises:
        NotFound: no entry is about them.
    """
    by = local_principal()
    with open_for_read() as host:
        store = host.plugins.for_tenant(Tenant(tenant))

        def unit(tx: Transaction) -> ErasureResult:
            names = principal_aliases(tx, tenant, principal)
            beside = erase_usage(tx, tenant, names) + erase_people(tx, tenant, names, store.now())
            return erase_person(
                approval_transaction(store, tx), principal, by=by, explanation=reason, other_rows=beside
            )

        forgotten = store.database.write(unit)
        return ErasureReport(forgotten, store.database.truncate_log())
