"""How many people of a tenant can answer requests that wait for a person."""

from __future__ import annotations

from paddock.core.call import OPERATOR
from paddock.core.ids import DEFAULT_TENANT
from paddock.principals.people import people
from paddock.store.transaction import Transaction

APPROVER = "approver"


def count_approvers(tx: Transaction, tenant: str) -> int:
    """The people who may act and have a role for it; in the default tenant, whoever operates this host as well."""
    able = [one for one in people(tx, tenant) if not one.disabled and {APPROVER, OPERATOR} & one.rights.roles]
    return len(able) + (tenant == DEFAULT_TENANT)
