"""How many people of a tenant can answer requests that wait for a person."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from paddock.core.call import OPERATOR
from paddock.core.ids import DEFAULT_TENANT
from paddock.principals.change import Change
from paddock.principals.people import people
from paddock.store.transaction import Transaction

APPROVER = "approver"

T = TypeVar("T")


def count_approvers(tx: Transaction, tenant: str) -> int:
    """The people who may act and have a role for it; in the default tenant, whoever operates this host as well."""
    able = [one for one in people(tx, tenant) if not one.disabled and {APPROVER, OPERATOR} & one.rights.roles]
    return len(able) + (tenant == DEFAULT_TENANT)


def tells_of_second(change: Change, unit: Callable[[Change], T]) -> tuple[T, bool]:
    """What a change gives, and whether it left the tenant with several who may approve, where it had one.

    From then on nobody approves what they asked for themselves, which whoever made the change should hear.
    """
    before = count_approvers(change.tx, change.tenant)
    given = unit(change)
    return given, before <= 1 < count_approvers(change.tx, change.tenant)
