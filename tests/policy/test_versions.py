"""Every version of the rules that was in force is kept, whole."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from tests.policy.rulebook import CALL, policy_of, rule

from paddock.core.errors import HostError
from paddock.policy.engine import Policy
from paddock.policy.versions import activate_version, list_versions, load_version
from paddock.store.database import DirectDatabase, open_direct

FIRST = policy_of(rule("a", f"permit({CALL})"), shipped=True)
SECOND = policy_of(
    rule("b", 'forbid(principal, action == Action::"callUnattended", resource)', '@approval("gate") @quorum("2")'),
    tags=("own",),
)


@pytest.fixture
def database(database_address: str) -> Generator[DirectDatabase, None, None]:
    with open_direct(database_address) as opened:
        yield opened


def put(database: DirectDatabase, policy: Policy, now: str) -> bool:
    return database.write(lambda tx: activate_version(tx, policy.rules, now))


def test_the_rules_of_an_old_decision_are_there_word_for_word(database: DirectDatabase) -> None:
    put(database, FIRST, "2026-01-01T00:00:00Z")
    put(database, SECOND, "2026-01-02T00:00:00Z")

    for policy in (FIRST, SECOND):
        kept = database.read(lambda tx, name=policy.version: load_version(tx, name))
        assert kept == policy.rules
        assert kept is not None
        assert kept.version == policy.version


def test_when_each_came_into_force_is_known_also_when_it_came_back(database: DirectDatabase) -> None:
    changes = [put(database, one, f"2026-01-0{day}T00:00:00Z") for day, one in enumerate([FIRST, FIRST, SECOND, FIRST])]

    assert changes == [True, False, True, True]
    assert [(one.version, one.since[:10]) for one in database.read(list_versions)] == [
        (FIRST.version, "2026-01-03"),
        (SECOND.version, "2026-01-02"),
        (FIRST.version, "2026-01-00"),
    ]


def test_a_version_that_never_was_is_not_there(database: DirectDatabase) -> None:
    assert database.read(lambda tx: load_version(tx, "pol_none")) is None


def test_rules_that_somebody_changed_in_the_database_are_not_taken_for_those_that_were(
    database: DirectDatabase,
) -> None:
    put(database, FIRST, "2026-01-01T00:00:00Z")
    database.write(lambda tx: tx.execute("UPDATE policy_versions SET document = REPLACE(document, 'forbid', 'permit')"))

    with pytest.raises(HostError, match="not those that were in force"):
        database.read(lambda tx: load_version(tx, FIRST.version))
