"""Checks the newest entries of the ledger: those after the last checkpoint, which no signature protects yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.action import Action
from paddock.core.errors import PaddockError
from paddock.host.doctor.check import STORE_TIMEOUT_S, Check, CheckStatus

_WHY_LEDGER = "A daemon checks the same when it starts, and rejects the calls of a tenant whose ledger was changed."


def check_ledger(directories: Directories, settings: Settings | None) -> Check:
    """Check every tenant's chain from its last checkpoint on, as a daemon does when it starts."""
    # Imported here: needed only on a machine with a database.
    from paddock.store.database import embedded_path

    if settings is None:
        return _ledger_unchecked("the settings have to be fixed first")
    try:
        address = settings.store.url or directories.database_file
        path = embedded_path(address)
        if path is not None and not path.is_file():
            return Check("ledger", CheckStatus.OK, "nothing was recorded yet")
        broken, unverified = asyncio.run(_verify_newest(address, directories.state))
    except PaddockError as error:
        return _ledger_unchecked(error.message)
    if broken:
        first = next(iter(broken.values()))
        details = tuple(error.message for error in broken.values()) if len(broken) > 1 else ()
        return Check.of_error("ledger", first, _WHY_LEDGER, details)
    if unverified:
        return _ledger_unchecked(unverified[0])
    found = "the entries since the last checkpoint are unchanged; to verify all of them"
    return Check("ledger", CheckStatus.OK, found, actions=(Action.of("ledger.verify"),))


async def _verify_newest(address: str | Path, state: Path) -> tuple[dict[str, PaddockError], list[str]]:
    from paddock.ledger.chain.startup_check import verify_since_checkpoint
    from paddock.store.database import open_database

    broken: dict[str, PaddockError] = {}
    unverified: list[str] = []
    async with open_database(address, role="command", wait=STORE_TIMEOUT_S) as database:
        await verify_since_checkpoint(database, state, broken, unverified.append)
    return broken, unverified


def _ledger_unchecked(reason: str) -> Check:
    return Check("ledger", CheckStatus.WARN, f"could not be checked: {reason}", _WHY_LEDGER)
