"""What `paddock ledger erase` does."""

from __future__ import annotations

import os

from paddock.cli.opening import reading
from paddock.config.owners import user_name
from paddock.ledger.erase import erase


def erase_now(tenant: str, principal: str, reason: str) -> int:
    """Erase, and give in how many entries; it is recorded as the deed of whoever is logged in.

    Raises:
        NotFound: no entry tells of them.
    """
    with reading() as host:
        store = host.plugins
        return store.database.write(
            lambda tx: erase(
                tx,
                tenant,
                principal,
                by=f"local:{user_name(os.geteuid())}",
                explanation=reason,
                clock=store.clock,
                random=store.random,
            )
        )
