"""Consents: what people enabled for themselves and consented to, one revocable record per person and callable."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from paddock.core.action import Action
from paddock.core.errors import NotFound
from paddock.core.events.principals import ConsentGiven, ConsentRevoked
from paddock.core.printable import printable
from paddock.manifest.names import full_name
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Row, Transaction


class ConsentRecord(Struct, frozen=True):
    """A person's consent to one callable; void once it was revoked."""

    tenant: str
    person: str
    plugin: str
    callable: str
    given_at: str
    given_by: str
    revoked_at: str | None = None


def has_consent(tx: Transaction, tenant: str, person: str, plugin: str, callable_name: str) -> bool:
    """Return whether this person's consent to this callable is in force."""
    row = tx.one(
        "SELECT 1 AS yes FROM person_consents "
        "WHERE tenant = ? AND person = ? AND plugin = ? AND callable = ? AND revoked_at IS NULL",
        (tenant, person, plugin, callable_name),
    )
    return row is not None


def consented_names(tx: Transaction, tenant: str, person: str) -> frozenset[str]:
    """Return the full names of all callables that this person has consented to."""
    return frozenset(full_name(consent.plugin, consent.callable) for consent in list_consents(tx, tenant, person))


def list_consents(
    tx: Transaction, tenant: str, person: str | None = None, *, revoked: bool = False
) -> list[ConsentRecord]:
    """List the consents in force of a tenant, of everybody or of one person; with `revoked` also revoked ones."""
    person_filter, values = ("", (tenant,)) if person is None else (" AND person = ?", (tenant, person))
    rows = tx.all(
        f"SELECT * FROM person_consents WHERE tenant = ?{person_filter} ORDER BY person, plugin, callable",  # noqa: S608
        values,
    )
    return [record for row in rows if (record := ConsentRecord(**row)).revoked_at is None or revoked]


def find_by_name(consents: Iterable[ConsentRecord], name: str) -> ConsentRecord | None:
    """Return the consent to a callable, which may be named by its plugin if that has only this one."""
    consents = list(consents)
    exact = next((consent for consent in consents if full_name(consent.plugin, consent.callable) == name), None)
    of_plugin = [consent for consent in consents if consent.plugin == name]
    return exact or (of_plugin[0] if len(of_plugin) == 1 else None)


def give_consent(change: AuditedTransaction, person: str, plugin: str, callable_name: str) -> ConsentRecord:
    """Record a person's consent to one callable. One in force is left unchanged."""
    if has_consent(change.tx, change.tenant, person, plugin, callable_name):
        return _find_consent(change, person, plugin, callable_name)
    consent = ConsentRecord(change.tenant, person, plugin, callable_name, change.now, change.by)
    change.tx.execute(
        "INSERT INTO person_consents (tenant, person, plugin, callable, given_at, given_by) VALUES (?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (tenant, person, plugin, callable) DO UPDATE "
        "SET given_at = excluded.given_at, given_by = excluded.given_by, revoked_at = NULL",
        (consent.tenant, person, plugin, callable_name, consent.given_at, consent.given_by),
    )
    change.publish.publish(ConsentGiven(person, plugin, callable_name, change.by))
    return consent


def revoke_consent(change: AuditedTransaction, person: str, plugin: str, callable_name: str) -> ConsentRecord:
    """Revoke a person's consent.

    Raises:
        NotFound: there is none in force.
    """
    if not has_consent(change.tx, change.tenant, person, plugin, callable_name):
        raise NotFound(
            f"{printable(person)} has not consented to {printable(plugin)} {printable(callable_name)}",
            code="consent.not_found",
            action=Action.of("consent.list", tenant=change.tenant),
        )
    _revoke(change, _find_consent(change, person, plugin, callable_name))
    return _find_consent(change, person, plugin, callable_name)


def revoke_person_consents(change: AuditedTransaction, person: str) -> None:
    """Revoke all consents of a person in the change's tenant."""
    for consent in list_consents(change.tx, change.tenant, person):
        _revoke(change, consent)


def delete_plugin_consents(tx: Transaction, plugin: str) -> list[ConsentRecord]:
    """Delete all consents to a removed plugin; return those in force: a later plugin of that name is another one."""
    rows: list[Row] = tx.all(
        "SELECT * FROM person_consents WHERE plugin = ? ORDER BY tenant, person, callable", (plugin,)
    )
    tx.execute("DELETE FROM person_consents WHERE plugin = ?", (plugin,))
    return [consent for row in rows if (consent := ConsentRecord(**row)).revoked_at is None]


def delete_revoked_consents(tx: Transaction, tenant: str, person: str) -> int:
    """Delete a person's revoked consents, for an erasure; return their number."""
    return tx.execute(
        "DELETE FROM person_consents WHERE tenant = ? AND person = ? AND revoked_at IS NOT NULL", (tenant, person)
    )


def _revoke(change: AuditedTransaction, consent: ConsentRecord) -> None:
    change.tx.execute(
        "UPDATE person_consents SET revoked_at = ? WHERE tenant = ? AND person = ? AND plugin = ? AND callable = ?",
        (change.now, consent.tenant, consent.person, consent.plugin, consent.callable),
    )
    change.publish.publish(ConsentRevoked(consent.person, consent.plugin, consent.callable, change.by))


def _find_consent(change: AuditedTransaction, person: str, plugin: str, callable_name: str) -> ConsentRecord:
    row = change.tx.one(
        "SELECT * FROM person_consents WHERE tenant = ? AND person = ? AND plugin = ? AND callable = ?",
        (change.tenant, person, plugin, callable_name),
    )
    assert row is not None  # checked just before, in this transaction
    return ConsentRecord(**row)
