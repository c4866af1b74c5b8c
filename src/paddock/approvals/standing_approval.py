"""Standing approvals: confirmations that hold for more than one call, as long as nothing about the callable changes.

One is for its holder, for one callable or a whole plugin, and for one session or until it is revoked. A change of the
plugin's files, of the callable's definition, of its effects or of a rule that asked makes it void, because it no longer
matches: what was approved does not exist any more.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from msgspec import Struct

from paddock.approvals.model import ApprovedAction
from paddock.core.action import Action
from paddock.core.errors import Conflict, NotFound
from paddock.store.database import Transaction

_COLUMNS = (
    "id, tenant, holder, plugin, callable, session, digest, definition, effects, policies, given_by, given_at,"
    " revoked_at, revoked_by, approval, operator"
)


class StandingApproval(Struct, frozen=True):
    """A standing approval.

    Attributes:
        holder: The principal whose calls it covers.
        callable: None: every callable of the plugin.
        session: None: all sessions.
        definition, effects: Of the callable; None if it is for the whole plugin.
        approval: The request that created it.
        operator: The operator who passed the answer on, if the person did not answer in person.
    """

    id: str
    tenant: str
    holder: str
    plugin: str
    callable: str | None
    session: str | None
    digest: str
    definition: str | None
    effects: tuple[str, ...] | None
    policies: tuple[str, ...]
    given_by: str
    given_at: str
    approval: str
    revoked_at: str | None = None
    revoked_by: str | None = None
    operator: str | None = None

    def covers(self, subject: ApprovedAction, holder: str, session: str | None) -> bool:
        """Return whether it is in force and covers this action."""
        return (
            self.revoked_at is None
            and (self.tenant, self.holder, self.plugin) == (subject.tenant, holder, subject.plugin)
            and self.digest == subject.digest
            and (self.session is None or self.session == session)
            and (
                self.callable is None
                or (self.callable, self.definition, self.effects)
                == (subject.callable, subject.definition, subject.effects)
            )
            and set(subject.policies) <= set(self.policies)
        )


def insert_standing(tx: Transaction, standing: StandingApproval) -> None:
    """Store a new standing approval."""
    tx.execute(
        f"INSERT INTO standing_approvals ({_COLUMNS}) VALUES ({', '.join('?' * 16)})",  # noqa: S608
        (
            standing.id,
            standing.tenant,
            standing.holder,
            standing.plugin,
            standing.callable,
            standing.session,
            standing.digest,
            standing.definition,
            None if standing.effects is None else json.dumps(standing.effects),
            json.dumps(standing.policies),
            standing.given_by,
            standing.given_at,
            standing.revoked_at,
            standing.revoked_by,
            standing.approval,
            standing.operator,
        ),
    )


def find_standing(tx: Transaction, tenant: str, standing_id: str) -> StandingApproval:
    """Return a standing approval, revoked or not.

    Raises:
        NotFound: this tenant has none of that id.
    """
    row = tx.one(
        f"SELECT {_COLUMNS} FROM standing_approvals WHERE tenant = ? AND id = ?",  # noqa: S608
        (tenant, standing_id),
    )
    if row is None:
        raise standing_not_found(standing_id)
    return _standing_from_row(row)


def standing_not_found(standing_id: str) -> NotFound:
    """Build the error for an unknown id, and for one that the principal may not see."""
    return NotFound(
        f"there is no standing approval {standing_id!r}",
        code="approval.not_found",
        action=Action.of("approval.standing"),
    )


def find_created_by(tx: Transaction, tenant: str, approval_id: str) -> str | None:
    """Return the id of the standing approval that a request created, if any."""
    row = tx.one("SELECT id FROM standing_approvals WHERE tenant = ? AND approval = ?", (tenant, approval_id))
    return None if row is None else row["id"]


def mark_revoked(tx: Transaction, tenant: str, standing_id: str, *, by: str, at: str) -> StandingApproval:
    """Revoke a standing approval, and return its previous state. Does nothing if it was revoked already.

    Raises:
        NotFound: this tenant has none of that id.
    """
    previous = find_standing(tx, tenant, standing_id)
    tx.execute(
        "UPDATE standing_approvals SET revoked_at = ?, revoked_by = ?"
        " WHERE tenant = ? AND id = ? AND revoked_at IS NULL",
        (at, by, tenant, standing_id),
    )
    return previous


def require_active(tx: Transaction, tenant: str, standing_id: str) -> None:
    """Check that a standing approval is in force.

    Raises:
        Conflict: it was revoked.
    """
    row = tx.one("SELECT revoked_at FROM standing_approvals WHERE tenant = ? AND id = ?", (tenant, standing_id))
    if row is None or row["revoked_at"] is not None:
        raise Conflict(
            "the standing approval was revoked a moment ago",
            code="approval.revoked",
            hint="repeat the call to request approval",
            details={"standing": standing_id},
        )


def list_standing(
    tx: Transaction, tenant: str, holder: str | None = None, *, revoked: bool = False
) -> list[StandingApproval]:
    """List a tenant's standing approvals, oldest first; of one holder, or of all; revoked ones only if requested."""
    rows = tx.all(
        f"SELECT {_COLUMNS} FROM standing_approvals"  # noqa: S608
        f" WHERE tenant = ? AND (? = '' OR holder = ?){'' if revoked else ' AND revoked_at IS NULL'}"
        " ORDER BY given_at, id",
        (tenant, holder or "", holder or ""),
    )
    return [_standing_from_row(row) for row in rows]


def find_covering(
    tx: Transaction, subject: ApprovedAction, holder: str, session: str | None
) -> StandingApproval | None:
    """Return a standing approval in force that covers this action of a holder; None if there is none."""
    held = list_standing(tx, subject.tenant, holder)
    return next((standing for standing in held if standing.covers(subject, holder, session)), None)


def list_held_by(tx: Transaction, tenant: str, holders: Collection[str]) -> list[StandingApproval]:
    """List the standing approvals in force of several holders."""
    return [standing for standing in list_standing(tx, tenant) if standing.holder in holders]


def _standing_from_row(row: dict[str, object]) -> StandingApproval:
    fields = dict(row)
    effects, policies = fields.pop("effects"), fields.pop("policies")
    return StandingApproval(
        **fields,  # pyright: ignore[reportArgumentType]  # the columns are its fields
        effects=None if effects is None else tuple(json.loads(str(effects))),
        policies=tuple(json.loads(str(policies))),
    )
