"""Somebody goes: with their keys, their places in groups and what they consented to."""

from __future__ import annotations

from paddock.principals.api_keys import keys, revoke_key
from paddock.principals.change import Change
from paddock.principals.consents import revoke_consents_of
from paddock.principals.people import Person, delete_person, require_person


def remove_person(change: Change, name: str) -> Person:
    """Remove a person and all that was theirs. Whoever gets that name later begins with nothing.

    Raises:
        NotFound: nobody is called that.
    """
    person = require_person(change.tx, change.tenant, name)
    for key in keys(change.tx, change.tenant, person.name):
        revoke_key(change, key.id)
    revoke_consents_of(change, person.id)
    delete_person(change, person)
    return person
