"""Somebody goes, a group or a key: with all that was theirs, so that whoever gets the name later begins with nothing.

It stands above the rows of people because a yes that lasts, and a call that waits for one, go too.
"""

from __future__ import annotations

from paddock.policy.approvals.leaving import let_go
from paddock.policy.approvals.unit import Unit
from paddock.principals.api_keys import ApiKey, keys, revoke_key
from paddock.principals.change import Change
from paddock.principals.consents import revoke_consents_of
from paddock.principals.groups import Group, delete_group
from paddock.principals.login_links import void_links_of
from paddock.principals.people import Person, delete_person, require_person
from paddock.principals.sessions import end_sessions_of
from paddock.secrets.rows import remove_secrets_of


def remove_person(change: Change, unit: Unit, name: str) -> Person:
    """Remove a person with their keys, sessions, secrets, groups, consents, standing approvals and calls that wait.

    Args:
        change: The unit of work, and who removes them.
        unit: The same unit of work, for what they asked for.
        name: Whom.

    Raises:
        NotFound: nobody is called that.
    """
    person = require_person(change.tx, change.tenant, name)
    theirs = keys(change.tx, change.tenant, person.name)
    for key in theirs:
        revoke_key(change, key.id)
    end_sessions_of(change, person.id)
    void_links_of(change, person.id)
    revoke_consents_of(change, person.id)
    remove_secrets_of(change, person.id)
    let_go(unit, {person.id, f"token:{person.name}", *(f"key:{key.id}" for key in theirs)}, change.by)
    delete_person(change, person)
    return person


def remove_group(change: Change, unit: Unit, name: str) -> Group:
    """Remove a group, and void the requests that it was to answer. Its members stay people.

    Raises:
        NotFound: there is none of that name.
    """
    group = delete_group(change, name)
    let_go(unit, {f"group:{group.name}"}, change.by)
    return group


def retire_key(change: Change, unit: Unit, wanted: str) -> ApiKey:
    """Have a key work no more, and end what was asked for with it. One that was revoked before stays as it is.

    Raises:
        NotFound: there is none of that id.
    """
    key = revoke_key(change, wanted)
    let_go(unit, {f"key:{key.id}"}, change.by)
    return key
