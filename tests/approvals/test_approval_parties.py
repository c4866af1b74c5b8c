"""Pending requests of a person: a query finds those whose answer would count, the most urgent first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any, LiteralString, cast

import apsw
import psycopg
import pytest
from msgspec.structs import replace
from tests.approvals.conftest import ANN, BOB, CLEO, SEND, Office, person
from tests.approvals.test_many_waiting import with_room

from paddock.approvals import approval_parties, open_requests, store
from paddock.approvals.access import Answerer, can_see, may_answer
from paddock.approvals.approval_parties import WaitingApproval
from paddock.approvals.model import Approval, ApprovalRequestKind
from paddock.core.call import Principal
from paddock.core.ids import PrincipalId
from paddock.manifest.effects import Risk
from paddock.store.database import Transaction
from paddock.store.statement import check_statement

KINDS = tuple(kind.value for kind in ApprovalRequestKind)
DAN = person("dan", groups=frozenset({"night"}))
CHIEF = person("chief", "operator")
KEY = Principal(PrincipalId("key:k1"), kind="key", owner=PrincipalId("user:bob"))
ROBIN = Principal(PrincipalId("agent:robin"), kind="agent", roles=frozenset({"approver"}))
RELAYED = replace(BOB, interactive=False)
NOBODY = person("nell")


async def listed(
    office: Office, by: Principal, *, with_others: bool = False, limit: int = 500
) -> list[WaitingApproval]:
    page = approval_parties.list_with_others if with_others else approval_parties.list_answerable
    now = office.clock.now().isoformat()
    return await office.database.read(lambda tx: page(tx, by, now, kinds=KINDS, limit=limit))


async def all_pages(office: Office, by: Principal, size: int) -> list[str]:
    found: list[str] = []
    after, now = None, office.clock.now().isoformat()
    while True:
        page = await office.database.read(
            lambda tx, after=after: approval_parties.list_answerable(tx, by, now, kinds=KINDS, after=after, limit=size)
        )
        found += [one.id for one in page]
        if len(page) < size:
            return found
        after = page[-1].urgency


def ids(requests: Iterable[WaitingApproval]) -> set[str]:
    return {one.id for one in requests}


@pytest.mark.req("B-18", "inbox")
async def test_a_person_is_shown_exactly_the_requests_that_they_may_answer(office: Office) -> None:
    many = with_room(office, per_principal=1_000)
    made = [
        await many.asked(kind, four_eyes=four_eyes, approvers=approvers, requester=requester, for_person=for_person)
        for kind, four_eyes, approvers, (requester, for_person) in product(
            ApprovalRequestKind,
            (False, True),
            (("role:approver",), ("group:night", "user:nell")),
            (("user:bob", "user:bob"), ("key:k1", "user:bob"), ("agent:robin", "user:dan")),
        )
    ]
    first = next(one for one in made if one.kind is ApprovalRequestKind.ACTION and may_answer(one, Answerer(ANN)))
    await many.desk.void("default", made[1].id, "it is gone")
    twice = await many.asked(quorum=2)
    await many.desk.approve("default", twice.id, ANN)
    requests = [await many.desk.find("default", one.id) for one in (*made, twice)]
    waiting = [one for one in requests if one.state.value == "pending"]

    for by in (ANN, BOB, CLEO, DAN, CHIEF, KEY, RELAYED, NOBODY):
        through = "local:root" if by is RELAYED else None
        expected = {one.id for one in waiting if may_answer(one, Answerer(by, through))}
        assert ids(await listed(many, by)) == expected, by.id
        others = ids(await listed(many, by, with_others=True))
        own = {
            one.id
            for one in waiting
            if by.id in (one.binding.requester, one.for_person, *(answer.by for answer in one.answers))
        }
        assert others == own - expected, by.id

    assert twice.id in ids(await listed(many, ANN, with_others=True)), "it needs one more person"
    assert first.id in ids(await listed(many, CLEO))
    assert await listed(many, replace(ANN, tenant="other")) == []  # type: ignore[arg-type]
    many.clock.pass_time(days=8)
    assert await listed(many, CHIEF) == [], "all have expired"


@pytest.mark.req("B-18", "inbox")
async def test_the_most_dangerous_comes_first_then_the_nearest_deadline_and_long_inputs_are_left_out(
    office: Office,
) -> None:
    reads = await office.asked(subject=replace(SEND, effects=("read_only",)))
    office.clock.pass_time(seconds=1)
    gate = await office.asked(ApprovalRequestKind.GATE, payload={"text": "x" * 3_000})
    office.clock.pass_time(seconds=1)
    writes = await office.asked(subject=replace(SEND, effects=("db_write",)))
    office.clock.pass_time(seconds=1)
    sends = await office.asked()

    found = await listed(office, ANN)

    assert [one.id for one in found] == [sends.id, gate.id, writes.id, reads.id]
    assert [one.risk for one in found] == [Risk.DANGER, Risk.DANGER, Risk.WARNING, Risk.NOTICE]
    assert [one.payload for one in found] == [sends.payload, None, writes.payload, reads.payload]
    assert await all_pages(office, ANN, 1) == [one.id for one in found]


@pytest.mark.req("B-18", "inbox")
async def test_a_list_shows_exactly_the_requests_that_a_principal_may_see_open_or_ended(office: Office) -> None:
    many = with_room(office, per_principal=1_000)
    made: list[str] = []
    for kind, approvers, (requester, for_person) in product(
        ApprovalRequestKind,
        (("role:approver",), ("group:night", "user:nell")),
        (("user:bob", "user:bob"), ("key:k1", "user:bob"), ("agent:robin", "user:dan"), ("plugin:mail", "")),
    ):
        many.clock.pass_time(seconds=1)
        asked = await many.asked(kind, approvers=approvers, requester=requester, for_person=for_person)
        made.append(asked.id)
    for ended in made[::3]:
        await many.desk.void("default", ended, "it is gone")
    newest_first = [await many.desk.find("default", each) for each in reversed(made)]

    for by in (ANN, BOB, CLEO, DAN, CHIEF, KEY, ROBIN, NOBODY, person("zoe")):
        for open_only in (True, False):
            expected = [
                one.id for one in newest_first if can_see(one, by) and not (open_only and one.state.value != "pending")
            ]
            shown: list[str] = []
            while page := await many.desk.page(
                "default", open_only=open_only, to=by, before=shown[-1] if shown else None, limit=5
            ):
                shown += [one.id for one in page]
            assert shown == expected, (by.id, open_only)
    assert await many.desk.page("other", to=replace(ANN, tenant="other")) == []  # type: ignore[arg-type]


async def copied(office: Office, like: Approval, first: int, last: int) -> None:
    """As many more requests like this one."""

    def copy(tx: Transaction) -> None:
        numbers = f"WITH RECURSIVE numbers (i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM numbers WHERE i < {last})"
        for table, key in (("approvals", "id"), ("approval_parties", "approval"), ("approval_viewers", "approval")):
            row = tx.all(f"SELECT * FROM {table} WHERE {key} = ?", (like.id,))[0]
            others = ", ".join(f"{table}.{name}" for name in row if name != key)
            tx.execute(
                f"INSERT INTO {table} ({key}, {others.replace(f'{table}.', '')}) {numbers}"
                f" SELECT 'apr_copy' || i, {others} FROM numbers, {table} WHERE {key} = ?",
                (like.id,),
            )

    await office.database.write(copy)


@pytest.mark.slow
@pytest.mark.req("B-18", "inbox")
async def test_what_a_page_or_a_count_reads_does_not_grow_with_the_requests_that_wait(
    office: Office, database_address: str
) -> None:
    many = with_room(office, per_principal=1_000_000, bytes_per_principal=1 << 40)
    one = await many.asked(requester="user:dan", four_eyes=True)
    now, queries = many.clock.now().isoformat(), dict[str, Callable[[Transaction], object]]()
    for by in (ANN, CHIEF, DAN, NOBODY):
        more: Any = {"kinds": KINDS, "limit": 51}
        queries |= {
            f"page of {by.id}": partial(approval_parties.list_answerable, by=by, now=now, **more),
            f"with others of {by.id}": partial(approval_parties.list_with_others, by=by, now=now, **more),
            f"count of {by.id}": partial(approval_parties.count_answerable, by=by, now=now, kinds=KINDS, limit=500),
            f"count with others of {by.id}": partial(
                approval_parties.count_with_others, by=by, now=now, kinds=KINDS, limit=500
            ),
            f"list of {by.id}": partial(store.list_requests, tenant="default", open_only=True, to=by, limit=50),
            f"history of {by.id}": partial(store.list_requests, tenant="default", to=by, limit=50),
        }
    queries |= {
        "found": partial(approval_parties.find_answerable, by=ANN, now=now, kinds=KINDS, approval_id=one.id),
        "calls": partial(
            approval_parties.list_waiting_calls, tenant="default", now=now, requesters=None, plugin="", limit=50
        ),
        "limit": partial(open_requests.count_open, tenant="default", requester="user:dan", limit=100),
        "deadlines": open_requests.nearest_deadlines,
        "unused": partial(open_requests.list_unused, after="", now=now),
    }
    few = 2_000
    await copied(many, one, 1, few)
    at_first = {name: await steps(many, database_address, query) for name, query in queries.items()}
    await copied(many, one, few + 1, 100_000)
    at_last = {name: await steps(many, database_address, query) for name, query in queries.items()}

    grown = {name: (at_first[name], taken) for name, taken in at_last.items() if taken > 1.3 * at_first[name] + 50}
    assert grown == {}
    assert len(await listed(many, ANN, limit=51)) == 51
    assert len(await many.desk.page("default", to=ANN, limit=50)) == 50
    assert await listed(many, NOBODY) == []


async def steps(office: Office, address: str, query: Callable[[Transaction], object]) -> int:
    """What an engine does for a query: SQLite's steps of its program, or the rows that PostgreSQL takes up."""
    asked: list[tuple[str, Sequence[Any]]] = []

    class Listening:
        """A transaction that remembers its queries."""

        def __init__(self, tx: Transaction) -> None:
            self._tx = tx

        def __getattr__(self, name: str) -> Any:
            def forward(sql: str, params: Sequence[Any] = ()) -> Any:
                asked.append((sql, params))
                return getattr(self._tx, name)(sql, params)

            return forward

    await office.database.read(lambda tx: query(Listening(tx)))  # type: ignore[arg-type]
    statements = [(check_statement(sql), tuple(params)) for sql, params in asked]
    if address.startswith("postgresql"):
        with psycopg.connect(address, autocommit=True) as connection:
            connection.execute("ANALYZE")
            plans = [
                connection.execute(
                    cast("LiteralString", f"EXPLAIN (ANALYZE, FORMAT JSON) {statement.postgres}"), params
                ).fetchone()
                for statement, params in statements
            ]
        return sum(rows_of(plan[0][0]["Plan"]) for plan in plans if plan is not None)
    counted = 0

    def count() -> bool:
        nonlocal counted
        counted += 10
        return False

    connection = apsw.Connection(address.removeprefix("sqlite://"))
    connection.set_progress_handler(count, 10)
    for statement, params in statements:
        connection.execute(statement.sqlite, params).fetchall()
    connection.close()
    return counted


def rows_of(plan: dict[str, Any]) -> int:
    """The rows that a plan and its parts took up, those included that did not fit."""
    removed = sum(int(plan.get(f"Rows Removed by {why}", 0)) for why in ("Filter", "Join Filter", "Index Recheck"))
    own = (int(plan["Actual Rows"]) + removed) * int(plan["Actual Loops"])
    return own + sum(rows_of(part) for part in plan.get("Plans", ()))
