"""Nothing is to be known of a person any more: what their requests say, and that they answered others, is cleared.

What is cleared has ended. A request that is open is voided first, for it cannot be used without what it says.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

from paddock.ledger.erase import mentions
from paddock.policy.approvals import rows
from paddock.policy.approvals.approval import OPEN, State
from paddock.policy.approvals.unit import Unit
from paddock.policy.approvals.using import end
from paddock.store.database import Row

_WHY = "who asked for it, or answered it, was erased from the record"
_ENDED = tuple(sorted(state.value for state in State if state not in OPEN))


def clear(unit: Unit, names: Collection[str]) -> int:
    """Clear whatever requests, answers and revoked standing approvals say of somebody, and give in how many rows.

    A standing approval that they hold stays until it is revoked: it is in use.

    Args:
        unit: The unit of work in which they are forgotten.
        names: All that they are known as, keys too.
    """
    _void(unit, names)
    requests = [row for row in _ended(unit) if _clear_request(unit, row, names)]
    return len(requests) + _clear_answers(unit, names) + _clear_standing(unit, names)


def _void(unit: Unit, names: Collection[str]) -> None:
    for waiting in rows.all_open(unit.tx, unit.tenant):
        approval = rows.find(unit.tx, unit.tenant, waiting.id)
        people = {*approval.askers, *(answer.by for answer in approval.answers)}
        if not people.isdisjoint(names):
            end(unit, approval, State.VOIDED, _WHY)


def _ended(unit: Unit) -> list[Row]:
    return unit.tx.all(
        "SELECT id, requester, for_person, binding, context, ended_why FROM approvals"  # noqa: S608  # marks only
        f" WHERE tenant = ? AND state IN ({', '.join('?' * len(_ENDED))})",
        (unit.tenant, *_ENDED),
    )


def _clear_request(unit: Unit, row: Row, names: Collection[str]) -> bool:
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
    why = "" if any(mentions(row["ended_why"], name) for name in names) else row["ended_why"]
    after = (json.dumps(binding | others), json.dumps(context), why)
    if after == (json.dumps(binding | {"editors": binding.get("editors", [])}), row["context"], row["ended_why"]):
        return False
    unit.tx.execute(
        "UPDATE approvals SET binding = ?, context = ?, ended_why = ? WHERE tenant = ? AND id = ?",
        (*after, unit.tenant, row["id"]),
    )
    return True


def _clear_answers(unit: Unit, names: Collection[str]) -> int:
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
                (unit.tenant, row["approval"], State.DENIED.value),
            )
            cleared += 1
    return cleared


def _clear_standing(unit: Unit, names: Collection[str]) -> int:
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
