"""Forgetting a person, in one unit of work: what the ledger says of them, and what lies beside it of their requests."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from paddock.approvals import store
from paddock.approvals.consume import end_request
from paddock.approvals.model import OPEN_STATES, ApprovalState
from paddock.approvals.store import ApprovalTransaction
from paddock.ledger.erase import erase, mentions_principal, principal_aliases
from paddock.principals.consents import delete_revoked_consents
from paddock.store.database import Row

_END_REASON = "who asked for it, or answered it, was erased from the record"
_ENDED_STATES = tuple(sorted(state.value for state in ApprovalState if state not in OPEN_STATES))


def clear_person(unit: ApprovalTransaction, names: Collection[str]) -> int:
    """Clear whatever requests, answers and revoked standing approvals say of somebody, and give in how many rows.

    A standing approval that they hold stays until it is revoked: it is in use.

    Args:
        unit: The unit of work in which they are forgotten.
        names: All that they are known as, keys too.
    """
    _void_open_requests(unit, names)
    requests = [row for row in _ended_requests(unit) if _clear_request(unit, row, names)]
    return len(requests) + _clear_answers(unit, names) + _clear_standing(unit, names)


def _void_open_requests(unit: ApprovalTransaction, names: Collection[str]) -> None:
    for waiting in store.list_open(unit.tx, unit.tenant):
        approval = store.find_request(unit.tx, unit.tenant, waiting.id)
        people = {*approval.requesters, *(answer.by for answer in approval.answers)}
        if not people.isdisjoint(names):
            end_request(unit, approval, ApprovalState.VOIDED, _END_REASON)


def _ended_requests(unit: ApprovalTransaction) -> list[Row]:
    return unit.tx.all(
        "SELECT id, requester, for_person, binding, context, ended_why FROM approvals"  # noqa: S608  # marks only
        f" WHERE tenant = ? AND state IN ({', '.join('?' * len(_ENDED_STATES))})",
        (unit.tenant, *_ENDED_STATES),
    )


def _clear_request(unit: ApprovalTransaction, row: Row, names: Collection[str]) -> bool:
    """Whether there was anything to clear in it."""
    binding: dict[str, Any] = json.loads(row["binding"])
    if not {row["requester"], row["for_person"]}.isdisjoint(names):
        # Without the nonce the binding's hash, which the ledger keeps, lets nobody try out what it was of.
        binding |= {"requester": "", "payload_hash": "", "nonce": "", "approvers": [], "editors": []}
        unit.tx.execute(
            "UPDATE approvals SET requester = '', for_person = '', binding = ?, token_hash = '', payload = '{}',"
            " context = '{}', ended_why = '' WHERE tenant = ? AND id = ?",
            (json.dumps(binding), unit.tenant, row["id"]),
        )
        unit.tx.execute("UPDATE approval_answers SET comment = '' WHERE approval = ?", (row["id"],))
        return True
    others = {part: [who for who in binding.get(part, ()) if who not in names] for part in ("approvers", "editors")}
    context: dict[str, Any] = json.loads(row["context"])
    if f"local:{context.get('operator')}" in names:
        del context["operator"]
    why = "" if any(mentions_principal(row["ended_why"], name) for name in names) else row["ended_why"]
    after = (json.dumps(binding | others), json.dumps(context), why)
    if after == (json.dumps(binding | {"editors": binding.get("editors", [])}), row["context"], row["ended_why"]):
        return False
    unit.tx.execute(
        "UPDATE approvals SET binding = ?, context = ?, ended_why = ? WHERE tenant = ? AND id = ?",
        (*after, unit.tenant, row["id"]),
    )
    return True


def _clear_answers(unit: ApprovalTransaction, names: Collection[str]) -> int:
    """That somebody answered stays, and what; who it was goes."""
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
            # Two who answered the same and were both erased are still two.
            unit.tx.execute(
                "UPDATE approval_answers SET who = ?, comment = '' WHERE approval = ? AND who = ?",
                (f"erased:{unit.random.bytes(4).hex()}", row["approval"], name),
            )
            # Who says no says why, and that is why it ended.
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


@dataclass(frozen=True, slots=True)
class ErasureResult:
    """How many entries of the ledger, and other rows, told of somebody."""

    entries: int
    rows: int


def erase_person(
    unit: ApprovalTransaction, principal: str, *, by: str, explanation: str, beside: int = 0
) -> ErasureResult:
    """Erase what the record of a tenant says of somebody, with what their keys did. See `ledger/erase.py`.

    `beside` is how many rows were dropped elsewhere in this unit. What they still are and have is not touched: people,
    keys, consents and standing approvals go with `leaving.py`.

    Raises:
        NotFound: nothing tells of them.
    """
    names = principal_aliases(unit.tx, unit.tenant, principal)
    cleared = beside + clear_person(unit, names) + delete_revoked_consents(unit.tx, unit.tenant, principal)
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
