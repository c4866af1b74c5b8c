"""The policy rules in force: loaded when the host opens, and reloaded when their files change."""

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
from paddock.core.events.system import PolicyChanged
from paddock.core.ids import DEFAULT_TENANT
from paddock.ledger.write.append import TransactionLedger
from paddock.policy.engine import Policy
from paddock.policy.load import load_policy, rules_fingerprint
from paddock.policy.rules import RuleSet
from paddock.policy.versions import activate_version, current_version
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.host")

RELOAD_INTERVAL_S = 2.0  # between two checks of the files

RecordActivation: TypeAlias = Callable[[RuleSet], Awaitable[None]]
"""Records that these rules decide from now on."""


class ActivePolicy:
    """The policy in force; see `open_active_policy`. Invalid rules are not activated: the previous ones stay."""

    def __init__(
        self,
        loaded: Policy | PaddockError,
        directories: Directories,
        settings: PolicySettings,
        record: RecordActivation,
    ) -> None:
        self._policy = loaded if isinstance(loaded, Policy) else None
        # Why the files' current rules are not in force.
        self.load_error: PaddockError | None = loaded if isinstance(loaded, PaddockError) else None
        self._listeners: list[Callable[[], None]] = []
        self._directories = directories
        self._settings = settings
        self._record = record
        self._loaded_fingerprint: object = ()  # equals no fingerprint yet

    @property
    def policy(self) -> Policy:
        """The rules that decide.

        Raises:
            PaddockError: there are none, because those of the files could not be loaded.
        """
        if self._policy is not None:
            return self._policy
        assert self.load_error is not None  # there is a policy or an error
        raise self.load_error

    async def reload_if_changed(self) -> None:
        """Activate the rules of the files if they changed."""
        fingerprint = await asyncio.to_thread(rules_fingerprint, self._directories, self._settings)
        if fingerprint == self._loaded_fingerprint:
            return
        try:
            policy = await asyncio.to_thread(load_policy, self._directories, self._settings)
        except PaddockError as error:
            if self.load_error is None or self.load_error.message != error.message:
                _log.warning("the rules were changed and cannot be used, so the old ones stay: %s", error.message)
            self.load_error, self._loaded_fingerprint = error, fingerprint
            return
        if self._policy is None or policy.version != self._policy.version:
            await self._activate(policy)
        self.load_error = None
        self._loaded_fingerprint = fingerprint  # last: if recording fails, the next check retries

    async def run_forever(self) -> None:
        """Check the files periodically."""
        while True:
            await asyncio.sleep(RELOAD_INTERVAL_S)
            try:
                await self.reload_if_changed()
            except PaddockError as error:  # the store failed; the current rules stay
                _log.warning("new rules could not be brought in force: %s", error.message)

    async def _activate(self, policy: Policy) -> None:
        # Record first: nothing may be decided by rules that cannot be looked up later.
        await self._record(policy.rules)
        self._policy = policy
        for listener in self._listeners:
            listener()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call a function each time that new rules were activated."""
        self._listeners.append(listener)


@asynccontextmanager
async def open_active_policy(
    directories: Directories,
    settings: PolicySettings,
    database: Database,
    clock: Clock,
    random: Random,
    *,
    required: bool = True,
) -> AsyncGenerator[ActivePolicy, None]:
    """Load the rules of this machine and keep them in force for as long as the block runs.

    Args:
        directories, settings: Locate custom rules.
        database: Records which rules are in force.
        clock: The time.
        random: For ids.
        required: Whether rules that cannot be loaded are an error here; otherwise of every decision.

    Raises:
        Invalid: with every mistake in custom rules, each with file and line.
        PaddockError: they cannot be read or recorded.
    """

    async def record(rules: RuleSet) -> None:
        await database.write(lambda tx: _record_activation(tx, rules, clock, random))

    try:
        loaded = await asyncio.to_thread(load_policy, directories, settings)
    except PaddockError as error:
        if required:
            raise
        loaded = error
    else:
        await record(loaded.rules)
    yield ActivePolicy(loaded, directories, settings, record)


def _record_activation(tx: Transaction, rules: RuleSet, clock: Clock, random: Random) -> None:
    previous = current_version(tx)
    if activate_version(tx, rules, clock.now().isoformat()) and previous is not None:
        TransactionLedger(tx, clock, random, DEFAULT_TENANT).publish(PolicyChanged(previous.version, rules.version))
