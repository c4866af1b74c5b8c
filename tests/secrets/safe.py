"""A database with the tenant acme and Ann in it, keys of its own, and a hand that sets and reads secrets there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from paddock.core.clock import SystemRandom
from paddock.core.events.event import Event
from paddock.core.ids import PrincipalId, Tenant
from paddock.core.secret import Secret
from paddock.principals.people import add_person
from paddock.principals.tenants import add_tenant, list_tenants
from paddock.secrets.requirements import LookupOrder, SecretScope
from paddock.secrets.rotation import RotationResult, rotate
from paddock.secrets.rows import SecretInfo, find_secret, list_secrets, remove_secret
from paddock.secrets.vault import open_secret, store_secret
from paddock.secrets.wrapping_keys import WrappingKeys, build_wrapping_keys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import DirectDatabase, Transaction, open_direct

ACME, ANN = Tenant("acme"), "user:ann"
EITHER: LookupOrder = (SecretScope.USER, SecretScope.SYSTEM)
RANDOM = SystemRandom()


@dataclass
class Safe:
    """`told` is every event so far."""

    database: DirectDatabase
    keys: WrappingKeys
    tenant: Tenant = ACME
    address: str | Path = ""
    told: list[Event] = field(default_factory=list)

    def publish(self, event: Event) -> None:
        self.told.append(event)

    def deed(self, tx: Transaction) -> AuditedTransaction:
        return AuditedTransaction(tx, self.tenant, PrincipalId("local:ada"), "2026-03-01T12:00:00+00:00", self)

    def set(self, name: str, value: str, owner: str = "") -> SecretInfo:
        return store_secret(self.database, self.keys, RANDOM, self.deed, name, owner, Secret(value))

    def get(
        self, name: str, person: str | None = ANN, order: LookupOrder = EITHER, tenant: Tenant = ACME
    ) -> str | None:
        found = self.database.read(lambda tx: find_secret(tx, tenant, person, name, order))
        return None if found is None else open_secret(self.keys, found).reveal()

    def remove(self, name: str, owner: str = "") -> SecretInfo:
        return self.database.write(lambda tx: remove_secret(self.deed(tx), name, owner))

    def names(self) -> list[tuple[str, str, int]]:
        listed = self.database.read(lambda tx: list_secrets(tx, self.tenant))
        return [(one.name, one.owner, one.version) for one in listed]

    def rotate(self, preferred: str | None = None) -> RotationResult | None:
        return rotate(self.database, self.keys, RANDOM, self.deed, preferred=preferred)


def keys_at(state: Path) -> WrappingKeys:
    return build_wrapping_keys({}, state, RANDOM, preferred="file")


@contextmanager
def open_safe(address: str | Path, state: Path, keys: WrappingKeys | None = None) -> Generator[Safe, None, None]:
    with open_direct(address) as database:
        safe = Safe(database, keys or keys_at(state), address=address)
        if not any(row.name == ACME for row in database.read(list_tenants)):
            database.write(lambda tx: add_tenant(safe.deed(tx), ACME, "Acme Labs"))
            database.write(lambda tx: add_person(safe.deed(tx), "ann", roles=("member",)))
        safe.told.clear()
        yield safe
