"""The rules that are in force: read when the host opens, and again when their files change."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from paddock.config.directories import Directories
from paddock.config.settings import PolicySettings
from paddock.core.clock import Clock, Random
from paddock.core.errors import PaddockError
from paddock.core.events_policy import PolicyChanged
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.append import LedgerTable
from paddock.policy.engine import Policy
from paddock.policy.loading import fingerprint, load_policy
from paddock.policy.rules import Rules
from paddock.policy.versions import latest_in_force, put_in_force
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.host")

LOOK_AGAIN = 2.0  # seconds between two looks at the files

Record: TypeAlias = Callable[[Rules], Awaitable[None]]
"""Notes that these rules decide from now on."""


class Rulebook:
    """Opened with `open_rulebook`. Rules that cannot be used do not come in force: those before them stay."""

    def __init__(self, policy: Policy, directories: Directories, settings: PolicySettings, record: Record) -> None:
        self.policy = policy
        self.unusable: PaddockError | None = None  # why what the files say now is not in force
        self.on_changed: Callable[[], None] = lambda: None  # hears each time that others came in force
        self._directories = directories
        self._settings = settings
        self._record = record
        self._looked: object = ()  # like nothing yet

    async def look(self) -> None:
        """Bring what the files say now in force."""
        looks = await asyncio.to_thread(fingerprint, self._directories, self._settings)
        if looks == self._looked:
            return
        try:
            policy = await asyncio.to_thread(load_policy, self._directories, self._settings)
        except PaddockError as error:
            if self.unusable is None or self.unusable.message != error.message:
                _log.warning("the rules were changed and cannot be used, so the old ones stay: %s", error.message)
            self.unusable, self._looked = error, looks
            return
        self.unusable = None
        if policy.version != self.policy.version:
            await self._put_in_force(policy)
        self._looked = looks  # last: what could not be put on record is tried again

    async def look_again(self) -> None:
        """Look again and again."""
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                await self.look()
            except PaddockError as error:  # the store; what is in force stays
                _log.warning("new rules could not be brought in force: %s", error.message)

    async def _put_in_force(self, policy: Policy) -> None:
        # On record first: nothing is decided by rules that nobody can look up later.
        await self._record(policy.rules)
        self.policy = policy
        self.on_changed()


@asynccontextmanager
async def open_rulebook(
    directories: Directories, settings: PolicySettings, database: Database, clock: Clock, random: Random
) -> AsyncGenerator[Rulebook, None]:
    """The rules of this machine, in force for as long as the block runs.

    Raises:
        Invalid: with every mistake in one's own rules, each with its file and line.
        PaddockError: they cannot be read, or not be put on record.
    """
    policy = await asyncio.to_thread(load_policy, directories, settings)

    async def record(rules: Rules) -> None:
        await database.write(lambda tx: _put_on_record(tx, rules, clock, random))

    await record(policy.rules)
    yield Rulebook(policy, directories, settings, record)


def _put_on_record(tx: Transaction, rules: Rules, clock: Clock, random: Random) -> None:
    before = latest_in_force(tx)
    if put_in_force(tx, rules, clock.now().isoformat()) and before is not None:
        LedgerTable(tx, clock, random, DEFAULT_TENANT).publish(PolicyChanged(before.version, rules.version))
