"""Removes people, groups and keys with everything they own, so that a later holder of the name starts with nothing.

It is in this package, above `principals`, because standing approvals and pending calls are removed too.
"""

from __future__ import annotations

from collections.abc import Collection

from paddock.approvals import open_requests, standing_approval, store
from paddock.approvals.consume import end_request
from paddock.approvals.model import Approval, ApprovalState
from paddock.approvals.store import ApprovalTransaction
from paddock.core.events.approvals import StandingApprovalRevoked
from paddock.core.ids import PrincipalId
from paddock.principals.api_keys import ApiKey, list_keys, revoke_key
from paddock.principals.consents import revoke_person_consents
from paddock.principals.groups import PersonGroup, delete_group, require_group
from paddock.principals.login_links import void_links_for
from paddock.principals.people import Person, delete_person, require_person
from paddock.principals.sessions import end_all_sessions
from paddock.secrets.rows import remove_owner_secrets
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.transaction import Transaction

ENDED_PER_UNIT = 200
_END_REASON = "its requester or approver was removed"


def end_some_approvals_of(unit: ApprovalTransaction, removed: Collection[str]) -> bool:
    """Void some of the open requests that these principals made or were to answer; return whether there are more.

    Very many may wait for a group, and other calls are written between two of such transactions. The one that removes
    the group or the person ends those that are left.
    """
    batch = open_requests.list_open_of(unit.tx, unit.tenant, removed, ENDED_PER_UNIT)
    for approval in batch:
        end_request(unit, approval, ApprovalState.VOIDED, _END_REASON)
    return len(batch) == ENDED_PER_UNIT


def names_of_person(tx: Transaction, tenant: str, name: str) -> frozenset[str]:
    """Return the principal names of a person, keys included.

    Raises:
        NotFound: no such person.
    """
    person = require_person(tx, tenant, name)
    keys = list_keys(tx, tenant, person.name)
    return frozenset({person.id, f"token:{person.name}", *(f"key:{key.id}" for key in keys)})


def names_of_group(tx: Transaction, tenant: str, name: str) -> frozenset[str]:
    """Return the name under which rules name a group. Raises NotFound."""
    return frozenset({f"group:{require_group(tx, tenant, name).name}"})


def end_approvals_of(unit: ApprovalTransaction, removed: Collection[str], by: PrincipalId) -> list[Approval]:
    """Revoke the standing approvals of these principals, and void open requests that they made or were to answer.

    Args:
        unit: The transaction in which they are removed.
        removed: Names as in `user:ann`, `key:…` or `group:night-shift`.
        by: The principal that removes them.

    Returns:
        The requests that were open.
    """
    for held in standing_approval.list_held_by(unit.tx, unit.tenant, removed):
        standing_approval.mark_revoked(unit.tx, unit.tenant, held.id, by=by, at=unit.now)
        unit.publish().publish(
            StandingApprovalRevoked(
                standing=held.id,
                name=held.plugin,
                method=held.callable,
                revoked_by=by,
            )
        )
    affected: list[Approval] = []
    while batch := open_requests.list_open_of(unit.tx, unit.tenant, removed, store.REQUESTS_PAGE_ROWS):
        for approval in batch:
            end_request(unit, approval, ApprovalState.VOIDED, _END_REASON)
        affected += batch
    return affected


def remove_person(change: AuditedTransaction, unit: ApprovalTransaction, name: str) -> Person:
    """Remove a person with their keys, sessions, secrets, groups, consents, standing approvals and pending calls.

    Args:
        change: The transaction, with the principal that removes them.
        unit: The same transaction, for approvals.
        name: The person's name.

    Raises:
        NotFound: no such person.
    """
    person = require_person(change.tx, change.tenant, name)
    names = names_of_person(change.tx, change.tenant, person.name)
    for key in list_keys(change.tx, change.tenant, person.name):
        revoke_key(change, key.id)
    end_all_sessions(change, person.id)
    void_links_for(change, person.id)
    revoke_person_consents(change, person.id)
    remove_owner_secrets(change, person.id)
    end_approvals_of(unit, names, change.by)
    delete_person(change, person)
    return person


def remove_group(change: AuditedTransaction, unit: ApprovalTransaction, name: str) -> PersonGroup:
    """Remove a group, and void the requests that it was to answer. Its members stay.

    Raises:
        NotFound: no such group.
    """
    group = delete_group(change, name)
    end_approvals_of(unit, {f"group:{group.name}"}, change.by)
    return group


def retire_key(change: AuditedTransaction, unit: ApprovalTransaction, key_id: str) -> ApiKey:
    """Revoke a key, and end the requests made with it. A key that was revoked before is left as it is.

    Raises:
        NotFound: no such key.
    """
    key = revoke_key(change, key_id)
    end_approvals_of(unit, {f"key:{key.id}"}, change.by)
    return key
