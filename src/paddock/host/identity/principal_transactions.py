"""Transactions that change who may act: committed with their ledger entry, and in effect at once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from paddock.approvals.removal import end_some_approvals_of
from paddock.approvals.store import ApprovalTransaction
from paddock.core.call import Principal
from paddock.core.clock import Clock, Random
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.identity.caller import require_interactive_person
from paddock.host.identity.credentials import CredentialVerifier
from paddock.ledger.write.append import TransactionLedger
from paddock.plugins.store.thread import StoreThread
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import Database, Transaction

T = TypeVar("T")


class Removal(NamedTuple, Generic[T]):
    """What was removed, and the store's write-ahead log if that still contains it."""

    removed: T
    log: Path | None


class PrincipalTransactions:
    """Transactions shared by the services for people, keys and consents: each belongs to one tenant and principal.

    Args:
        database: Holds people and keys.
        store: Truncates the database's log after removals.
        credentials: Invalidated after each change.
        clock, random: For timestamps and tokens.
    """

    def __init__(
        self, database: Database, store: StoreThread, credentials: CredentialVerifier, clock: Clock, random: Random
    ) -> None:
        self.random = random
        self._database = database
        self._store = store
        self._credentials = credentials
        self._clock = clock

    def now(self) -> datetime:
        return self._clock.now()

    async def read(self, query: Callable[[Transaction], T]) -> T:
        """Run a read transaction."""
        return await self._database.read(query)

    async def write_as_person(self, by: Principal, write: Callable[[AuditedTransaction], T]) -> T:
        """Run a change on behalf of a person. Cached credentials are invalidated when this returns.

        Raises:
            Denied: the principal is a program. With a key it could create a person that signs in and approves.
        """
        require_interactive_person(by)
        return await self._write_and_invalidate(lambda tx: write(self._begin_change(tx, by.tenant, by.id)))

    async def write_removal(
        self,
        by: Principal,
        write: Callable[[AuditedTransaction, ApprovalTransaction], T],
        names: Callable[[Transaction], Collection[str]] | None = None,
    ) -> Removal[T]:
        """Run a removal, with the approval requests that depend on what is removed. Programs may do this too.

        Args:
            by: The principal that removes.
            write: Removes, and ends the requests that are open then.
            names: Returns the names of what is removed, where very many requests may depend on it.
        """
        if names is not None:
            await self._end_requests(by, names)
        removed = await self._write_and_invalidate(
            lambda tx: write(self._begin_change(tx, by.tenant, by.id), self._begin_approval_unit(tx, by))
        )
        return Removal(removed, await self._store.run(lambda store: store.database.truncate_log()))

    async def _end_requests(self, by: Principal, names: Callable[[Transaction], Collection[str]]) -> None:
        def end_some(tx: Transaction) -> bool:
            return end_some_approvals_of(self._begin_approval_unit(tx, by), names(tx))

        while await self._database.write(end_some):
            pass

    async def _write_and_invalidate(self, write: Callable[[Transaction], T]) -> T:
        result = await self._database.write(write)
        self._credentials.invalidate()
        return result

    def _begin_change(self, tx: Transaction, tenant: Tenant, by: PrincipalId) -> AuditedTransaction:
        ledger = TransactionLedger(tx, self._clock, self.random, tenant, by=by)
        return AuditedTransaction(tx, tenant, by, self._clock.now().isoformat(), ledger)

    def _begin_approval_unit(self, tx: Transaction, by: Principal) -> ApprovalTransaction:
        def publish_in(tx: Transaction, tenant: Tenant, call: str | None) -> TransactionLedger:
            return TransactionLedger(tx, self._clock, self.random, tenant, call, by.id)

        return ApprovalTransaction(tx, by.tenant, self._clock.now().isoformat(), self._clock, self.random, publish_in)
