"""Somebody goes, a group or a key: with all that was theirs, so that whoever gets the name later begins with nothing.

It stands above the rows of people because a yes that lasts, and a call that waits for one, go too.
"""

from __future__ import annotations

from collections.abc import Collection

from paddock.approvals import standing, store
from paddock.approvals.consume import end_request
from paddock.approvals.model import Approval, ApprovalState
from paddock.approvals.store import ApprovalTransaction
from paddock.core.events.approvals import StandingApprovalRevoked
from paddock.core.ids import PrincipalId
from paddock.principals.api_keys import ApiKey, list_keys, revoke_key
from paddock.principals.consents import revoke_person_consents
from paddock.principals.groups import PersonGroup, delete_group
from paddock.principals.login_links import void_links_for
from paddock.principals.people import Person, delete_person, require_person
from paddock.principals.sessions import end_all_sessions
from paddock.secrets.rows import remove_owner_secrets
from paddock.store.audited_transaction import AuditedTransaction

_END_REASON = "who asked for it, or was to answer it, is gone"


def end_approvals_of(unit: ApprovalTransaction, gone: Collection[str], by: PrincipalId) -> list[Approval]:
    """Take back every yes that lasts for one of these, and void what is open of them or asks one of them.

    Args:
        unit: The unit of work in which they go.
        gone: Names as in `user:ann`, `key:…` or `group:night-shift`.
        by: Who removes them.

    Returns:
        The requests that were open.
    """
    for one in standing.list_held_by(unit.tx, unit.tenant, gone):
        standing.mark_revoked(unit.tx, unit.tenant, one.id, by=by, at=unit.now)
        unit.publish().publish(
            StandingApprovalRevoked(standing=one.id, name=one.plugin, method=one.callable, revoked_by=by)
        )
    concerned = [approval for approval in store.list_open(unit.tx, unit.tenant) if _concerns(approval, gone)]
    for approval in concerned:
        end_request(unit, approval, ApprovalState.VOIDED, _END_REASON)
    return concerned


def _concerns(approval: Approval, gone: Collection[str]) -> bool:
    return not {approval.binding.requester, approval.for_person, *approval.binding.approvers}.isdisjoint(gone)


def remove_person(change: AuditedTransaction, unit: ApprovalTransaction, name: str) -> Person:
    """Remove a person with their keys, sessions, secrets, groups, consents, standing approvals and calls that wait.

    Args:
        change: The unit of work, and who removes them.
        unit: The same unit of work, for what they asked for.
        name: Whom.

    Raises:
        NotFound: nobody is called that.
    """
    person = require_person(change.tx, change.tenant, name)
    theirs = list_keys(change.tx, change.tenant, person.name)
    for key in theirs:
        revoke_key(change, key.id)
    end_all_sessions(change, person.id)
    void_links_for(change, person.id)
    revoke_person_consents(change, person.id)
    remove_owner_secrets(change, person.id)
    end_approvals_of(unit, {person.id, f"token:{person.name}", *(f"key:{key.id}" for key in theirs)}, change.by)
    delete_person(change, person)
    return person


def remove_group(change: AuditedTransaction, unit: ApprovalTransaction, name: str) -> PersonGroup:
    """Remove a group, and void the requests that it was to answer. Its members stay people.

    Raises:
        NotFound: there is none of that name.
    """
    group = delete_group(change, name)
    end_approvals_of(unit, {f"group:{group.name}"}, change.by)
    return group


def retire_key(change: AuditedTransaction, unit: ApprovalTransaction, wanted: str) -> ApiKey:
    """Have a key work no more, and end what was asked for with it. One that was revoked before stays as it is.

    Raises:
        NotFound: there is none of that id.
    """
    key = revoke_key(change, wanted)
    end_approvals_of(unit, {f"key:{key.id}"}, change.by)
    return key
