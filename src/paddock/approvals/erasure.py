"""Erases a person, in one transaction: from the ledger, and from approval requests, answers and consents."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from msgspec import Struct

from paddock.approvals import open_requests
from paddock.approvals.consume import end_request
from paddock.approvals.model import OPEN_STATES, ApprovalState
from paddock.approvals.party_rows import delete_views
from paddock.approvals.store import ApprovalTransaction
from paddock.ledger.erase import erase, mentions_principal, principal_aliases
from paddock.principals.consents import delete_revoked_consents
from paddock.store.database import Row

_END_REASON = "its requester or approver was erased from the ledger"
_ENDED_STATES = tuple(sorted(state.value for state in ApprovalState if state not in OPEN_STATES))


def clear_person(unit: ApprovalTransaction, names: Collection[str]) -> int:
    """Clear everything that requests, answers and revoked standing approvals say about a person; return the row count.

    A standing approval that they hold stays until it is revoked: it is in use.

    Args:
        unit: The transaction in which they are erased.
        names: All principal names of the person, keys included.
    """
    _void_open_requests(unit, names)
    requests = [row for row in _ended_requests(unit) if _clear_request(unit, row, names)]
    delete_views(unit.tx, unit.tenant, names)
    return len(requests) + _clear_answers(unit, names) + _clear_standing(unit, names)


def _void_open_requests(unit: ApprovalTransaction, names: Collection[str]) -> None:
    after = ("", "")
    while batch := open_requests.list_open_after(unit.tx, unit.tenant, after):
        for approval in batch:
            people = {*approval.requesters, *(answer.by for answer in approval.answers)}
            if not people.isdisjoint(names):
                end_request(unit, approval, ApprovalState.VOIDED, _END_REASON)
        after = (batch[-1].created_at, batch[-1].id)


def _ended_requests(unit: ApprovalTransaction) -> list[Row]:
    return unit.tx.all(
        "SELECT id, requester, for_person, binding, context, ended_why FROM approvals"  # noqa: S608  # marks only
        f" WHERE tenant = ? AND state IN ({', '.join('?' * len(_ENDED_STATES))})",
        (unit.tenant, *_ENDED_STATES),
    )


def _clear_request(unit: ApprovalTransaction, row: Row, names: Collection[str]) -> bool:
    """Clear one request, and return whether there was anything to clear."""
    binding: dict[str, Any] = json.loads(row["binding"])
    if not {row["requester"], row["for_person"]}.isdisjoint(names):
        # Without the nonce nobody can guess what the binding's hash, which stays in the ledger, was computed from.
        binding |= {"requester": "", "payload_hash": "", "nonce": "", "approvers": [], "editors": []}
        unit.tx.execute(
            "UPDATE approvals SET requester = '', for_person = '', binding = ?, token_hash = '', payload = '{}',"
            " context = '{}', ended_why = '' WHERE tenant = ? AND id = ?",
            (json.dumps(binding), unit.tenant, row["id"]),
        )
        unit.tx.execute("UPDATE approval_answers SET comment = '' WHERE approval = ?", (row["id"],))
        return True
    remaining = {
        part: [name for name in binding.get(part, ()) if name not in names] for part in ("approvers", "editors")
    }
    context: dict[str, Any] = json.loads(row["context"])
    if f"local:{context.get('operator')}" in names:
        del context["operator"]
    reason = "" if any(mentions_principal(row["ended_why"], name) for name in names) else row["ended_why"]
    cleared = (json.dumps(binding | remaining), json.dumps(context), reason)
    if cleared == (json.dumps(binding | {"editors": binding.get("editors", [])}), row["context"], row["ended_why"]):
        return False
    unit.tx.execute(
        "UPDATE approvals SET binding = ?, context = ?, ended_why = ? WHERE tenant = ? AND id = ?",
        (*cleared, unit.tenant, row["id"]),
    )
    return True


def _clear_answers(unit: ApprovalTransaction, names: Collection[str]) -> int:
    """Clear who answered; that there was an answer, and which, stays."""
    cleared = 0
    for name in sorted(names):
        cleared += unit.tx.execute(
            "UPDATE approval_answers SET operator = NULL"
            " WHERE operator = ? AND approval IN (SELECT id FROM approvals WHERE tenant = ?)",
            (name, unit.tenant),
        )
        for row in unit.tx.all(
            "SELECT approval FROM approval_answers JOIN approvals ON approvals.id = approval"
            " WHERE tenant = ? AND who = ?",
            (unit.tenant, name),
        ):
            # Two erased people who answered the same request must stay distinct.
            unit.tx.execute(
                "UPDATE approval_answers SET who = ?, comment = '' WHERE approval = ? AND who = ?",
                (f"erased:{unit.random.bytes(4).hex()}", row["approval"], name),
            )
            # A denial's comment is also the reason why the request ended.
            unit.tx.execute(
                "UPDATE approvals SET ended_why = '' WHERE tenant = ? AND id = ? AND state = ?",
                (unit.tenant, row["approval"], ApprovalState.DENIED.value),
            )
            cleared += 1
    return cleared


def _clear_standing(unit: ApprovalTransaction, names: Collection[str]) -> int:
    cleared = 0
    for name in sorted(names):
        cleared += unit.tx.execute(
            "UPDATE standing_approvals SET operator = NULL WHERE tenant = ? AND operator = ?", (unit.tenant, name)
        )
        for column in ("given_by", "revoked_by"):
            cleared += unit.tx.execute(
                f"UPDATE standing_approvals SET {column} = '' WHERE tenant = ? AND {column} = ?",  # noqa: S608  # ours
                (unit.tenant, name),
            )
        cleared += unit.tx.execute(
            "UPDATE standing_approvals SET holder = '', session = NULL"
            " WHERE tenant = ? AND holder = ? AND revoked_at IS NOT NULL",
            (unit.tenant, name),
        )
    return cleared


class ErasureResult(Struct, frozen=True):
    """The number of ledger entries, and of other rows, that mentioned the person."""

    entries: int
    rows: int


def erase_person(
    unit: ApprovalTransaction, principal: str, *, by: str, explanation: str, other_rows: int = 0
) -> ErasureResult:
    """Erase what a tenant's records say about a person, including what their keys did. See `ledger/erase.py`.

    `other_rows` is the number of rows deleted elsewhere in this transaction. The person's account, keys, consents and
    standing approvals are not touched: `removal.py` removes those.

    Raises:
        NotFound: nothing mentions them.
    """
    names = principal_aliases(unit.tx, unit.tenant, principal)
    cleared = other_rows + clear_person(unit, names) + delete_revoked_consents(unit.tx, unit.tenant, principal)
    entries = erase(
        unit.tx,
        unit.tenant,
        principal,
        by=by,
        explanation=explanation,
        clock=unit.clock,
        random=unit.random,
        other_rows=cleared,
    )
    return ErasureResult(entries, cleared)
