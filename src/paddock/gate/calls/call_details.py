"""What the ledger does not say of a call: its inputs without secrets, where it came from, and its idempotency key.

Kept for the newest calls of each tenant, so that their pages can show them and make the call again. They are written in
batches beside the calls: a full or slow disk costs details, and no call.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, NamedTuple

import orjson
from msgspec import Struct

from paddock.core.canonical import MAX_DEPTH
from paddock.core.errors import PaddockError
from paddock.core.ids import PrincipalId, Tenant
from paddock.gate.calls.redact_inputs import may_declare_secrets, may_name_secrets, redact_inputs
from paddock.gate.invocation import Invocation
from paddock.store.database import Database, Transaction

_log = logging.getLogger("paddock.calls")

MAX_QUEUED_CALLS: Final = 2_000
MAX_OTHER_CALLS: Final = 20  # under the same idempotency key
_BATCH_DELAY_S = 0.2
_CALLS_PER_PRUNE = 200
_SHUTDOWN_TIMEOUT_S = 2.0
_MAX_KNOWN_SCHEMAS = 2_000
_COLUMNS = "tenant, call, plugin, callable, principal, owner, origin, inputs, redacted, idempotency_key"
_UPSERT = (
    f"INSERT INTO call_details ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "  # noqa: S608 - columns are ours
    "ON CONFLICT (tenant, call) DO UPDATE SET inputs = excluded.inputs, redacted = excluded.redacted"
)


class CallDetails(Struct, frozen=True):
    """The details of one call.

    Attributes:
        inputs: The inputs as JSON data, with secrets replaced; None if they were too large to keep.
        redacted: The paths of the secrets.
        origin: Where it came from, see `CallContext.origin`.
        idempotency_key: The key that its caller gave.
        other_calls: The newest other calls under that key.
    """

    inputs: Any
    redacted: tuple[str, ...]
    origin: str | None
    idempotency_key: str | None
    other_calls: tuple[str, ...] = ()


class _QueuedCall(NamedTuple):
    tenant: Tenant
    call: str
    plugin: str
    callable: str
    principal: str
    owner: str | None
    origin: str | None
    inputs: bytes | None
    schema: Mapping[str, Any] | None  # None where it marks no secret
    idempotency_key: str | None


class CallDetailsStore:
    """Writes the details of calls that end, and reads them. Opened by `open_call_details`.

    Args:
        database: Holds the details.
        kept: How many calls of each tenant are kept; 0 keeps none.
    """

    def __init__(self, database: Database, kept: int) -> None:
        self._database = database
        self._kept = kept
        self._queue: list[_QueuedCall] = []
        self._available = asyncio.Event()
        self._writing = asyncio.Lock()
        self._declaring: dict[int, tuple[Mapping[str, Any], bool]] = {}  # whether a schema may mark secrets, by its id
        self._since_prune = _CALLS_PER_PRUNE - 1  # a host that makes a single call prunes too

    def call_ended(self, invocation: Invocation) -> None:
        """Observe a call that ended, or that waits for a person."""
        if not self._kept or len(self._queue) >= MAX_QUEUED_CALLS:
            return
        context, target = invocation.context, invocation.target
        self._queue.append(
            _QueuedCall(
                context.tenant,
                invocation.call_id,
                target.key.plugin,
                target.spec.name,
                context.principal.id,
                context.principal.owner,
                context.origin,
                invocation.inputs,
                self._schema_of_secrets(target.schemas.input),
                context.idempotency_key,
            )
        )
        self._available.set()

    def _schema_of_secrets(self, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the schema if it may mark secrets. Schemas are shared by all calls of a callable."""
        known = self._declaring.get(id(schema))
        if known is None or known[0] is not schema:
            if len(self._declaring) >= _MAX_KNOWN_SCHEMAS:
                self._declaring.clear()
            known = self._declaring[id(schema)] = (schema, may_declare_secrets(schema))
        return schema if known[1] else None

    async def find(self, tenant: Tenant, call: str, seen_by: PrincipalId | None = None) -> CallDetails | None:
        """Return the details of a call; None if they are not kept.

        Args:
            tenant: Its tenant.
            call: Its id.
            seen_by: Names other calls only if this principal or one of its keys made them; None names all.
        """
        await self.flush()
        return await self._database.read(lambda tx: _find(tx, tenant, call, seen_by))

    async def flush(self) -> None:
        """Write what was queued. Details that cannot be written are dropped: the ledger has the call."""
        async with self._writing:
            batch, self._queue = self._queue, []
            self._available.clear()
            if not batch:
                return
            self._since_prune += len(batch)
            prune, self._since_prune = self._since_prune >= _CALLS_PER_PRUNE, self._since_prune % _CALLS_PER_PRUNE
            try:
                await self._database.write(lambda tx: _write(tx, batch, self._kept if prune else None))
            except PaddockError as error:
                _log.warning("the inputs of %d calls were not kept: %s", len(batch), error.message)

    async def write_forever(self) -> None:
        """Write in batches until cancelled."""
        while True:
            await self._available.wait()
            await asyncio.sleep(_BATCH_DELAY_S)
            await self.flush()


@asynccontextmanager
async def open_call_details(database: Database, kept: int) -> AsyncGenerator[CallDetailsStore, None]:
    """Open the details for as long as the block runs; what is queued then is written."""
    store = CallDetailsStore(database, kept)
    writer = asyncio.create_task(store.write_forever(), name="write the details of calls")
    try:
        yield store
    finally:
        writer.cancel()
        await asyncio.gather(writer, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_SHUTDOWN_TIMEOUT_S):
                await store.flush()


def erase_call_details(tx: Transaction, tenant: str, principals: Collection[str]) -> int:
    """Erase the details of calls that these principals or their keys made; return how many there were."""
    return sum(
        tx.execute("DELETE FROM call_details WHERE tenant = ? AND principal = ?", (tenant, name))
        + tx.execute("DELETE FROM call_details WHERE tenant = ? AND owner = ?", (tenant, name))
        for name in principals
    )


def erase_plugin_call_details(tx: Transaction, plugin: str) -> None:
    """Erase the details of all calls of an uninstalled plugin, for every tenant."""
    tx.execute("DELETE FROM call_details WHERE plugin = ?", (plugin,))


def _write(tx: Transaction, batch: Iterable[_QueuedCall], prune_to: int | None) -> None:
    tenants: set[str] = set()
    for queued in batch:
        inputs, redacted = _redacted(queued)
        tenants.add(queued.tenant)
        tx.execute(_UPSERT, (*queued[:7], inputs, redacted, queued.idempotency_key))
    if prune_to is not None:
        for tenant in sorted(tenants):
            # The ids of calls begin with their time.
            tx.execute(
                "DELETE FROM call_details WHERE tenant = ? AND call <= "
                "(SELECT call FROM call_details WHERE tenant = ? ORDER BY call DESC LIMIT 1 OFFSET ?)",
                (tenant, tenant, prune_to),
            )


def _redacted(queued: _QueuedCall) -> tuple[str | None, str]:
    """Return the inputs without secrets, and the paths of the secrets, both as JSON."""
    encoded = queued.inputs
    if encoded is None or b"\\u0000" in encoded or encoded.count(b"[") + encoded.count(b"{") > 8 * MAX_DEPTH:
        return None, "[]"  # databases cannot store a NUL
    if queued.schema is None and not may_name_secrets(encoded):
        return encoded.decode(), "[]"
    try:
        inputs, paths = redact_inputs(orjson.loads(encoded), queued.schema or {})
        return orjson.dumps(inputs).decode(), orjson.dumps(paths).decode()
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        # The schema is a plugin's. One that cannot be read costs its own inputs, and those of no other call.
        _log.warning("the inputs of %s were not kept", queued.call, exc_info=True)
        return None, "[]"


def _find(tx: Transaction, tenant: str, call: str, seen_by: str | None) -> CallDetails | None:
    row = tx.one(f"SELECT {_COLUMNS} FROM call_details WHERE tenant = ? AND call = ?", (tenant, call))  # noqa: S608
    if row is None:
        return None
    key, others = row["idempotency_key"], ()
    if key is not None:  # of all callers: each chooses their keys
        own, values = ("", ()) if seen_by is None else (" AND (principal = ? OR owner = ?)", (seen_by, seen_by))
        others = tuple(
            other["call"]
            for other in tx.all(
                "SELECT call FROM call_details WHERE tenant = ? AND plugin = ? AND callable = ? "  # noqa: S608 - fixed
                f"AND idempotency_key = ? AND call <> ?{own} ORDER BY call DESC LIMIT ?",
                (tenant, row["plugin"], row["callable"], key, call, *values, MAX_OTHER_CALLS),
            )
        )
    inputs = None if row["inputs"] is None else orjson.loads(row["inputs"])
    return CallDetails(inputs, tuple(orjson.loads(row["redacted"])), row["origin"], key, others)
