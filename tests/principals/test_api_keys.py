"""Keys: shown once, kept as a hash, never more than their owner, and refused in the same words whatever is wrong."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace
from tests.principals.conftest import NOON, Office

from paddock.approvals.removal import remove_person
from paddock.core.call import Principal
from paddock.core.errors import Conflict, Denied, NotFound, OperatorError
from paddock.core.events.event import to_record
from paddock.core.events.principals import ApiKeyCreated, ApiKeyRevoked
from paddock.principals import api_keys
from paddock.principals.api_keys import authenticate_key, list_keys, record_key_use, revoke_key
from paddock.principals.people import add_person, change_rights, set_disabled


def known(office: Office, token: str, **more: str) -> Principal:
    return office.read(lambda tx: authenticate_key(tx, token, office.now, **more))


def test_a_token_proves_its_holder_to_be_a_key_that_acts_for_its_owner(office: Office) -> None:
    key, token = office.key(roles=["member"], scopes=["email:send"], label="the mailer")

    who = known(office, token)

    assert (who.id, who.kind, who.person, who.tenant) == (f"key:{key.id}", "key", "user:ann", "acme")
    assert (who.roles, who.scopes, who.interactive) == ({"member"}, {"email:send"}, False)
    assert known(office, token, tenant="acme") == who


def test_only_the_hash_of_a_token_is_kept_and_it_is_told_to_nobody(office: Office) -> None:
    key, token = office.key()
    secret = token.rpartition("_")[2]
    rows = office.read(lambda tx: tx.all("SELECT * FROM api_keys"))

    assert len(secret) == 52, "256 bits, five a character"
    assert secret not in repr(rows)
    assert secret not in repr([to_record(one) for one in office.told])
    assert secret not in repr(key)
    told = next(one for one in office.told if isinstance(one, ApiKeyCreated))
    assert (told.key_id, told.owner, told.by) == (key.id, "user:ann", "local:ada")
    assert len({office.key()[1] for _ in range(20)}) == 20


def swapped(office: Office, token: str) -> str:
    other, _ = office.key()
    return f"pdk_{other.id}_{token.rpartition('_')[2]}"


BROKEN: dict[str, Callable[[Office, str], tuple[Office, str]]] = {
    "of nobody": lambda office, token: (office, token[:4] + "aaaaaaaa" + token[12:]),
    "malformed": lambda office, token: (office, "Bearer " + token),
    "empty": lambda office, token: (office, token[:0]),
    "truncated": lambda office, token: (office, token[:-1]),
    "longer": lambda office, token: (office, token + "a"),
    "in capitals": lambda office, token: (office, token.upper()),
    "with a line end": lambda office, token: (office, token + "\n"),
    "another last letter": lambda office, token: (office, token[:-1] + ("a" if token[-1] != "a" else "b")),
    "not text": lambda office, token: (office, token[:4] + "\udcff"),
    "with another's id": lambda office, token: (office, swapped(office, token)),
    "expired": lambda office, token: (office.later(days=31), token),
    "expiring now": lambda office, token: (office.later(days=30), token),
    "revoked": lambda office, token: (
        office.change(lambda change: revoke_key(change, token[4:12])) and office, token,
    ),
    "of a disabled owner": lambda office, token: (
        office.change(lambda change: set_disabled(change, "ann", True)) and office, token,
    ),
    "of a removed owner": lambda office, token: (
        office.removal(lambda change, unit: remove_person(change, unit, "ann")) and office, token,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_every_token_that_is_not_good_is_refused_in_the_same_words(office: Office, how: str) -> None:
    _, token = office.key(expires_at=NOON + timedelta(days=30))
    known(office, token)
    where, broken = BROKEN[how](office, token)

    with pytest.raises(Denied) as refused:
        known(where, broken)

    error = refused.value
    assert (error.error_code, error.message, dict(error.details)) == ("auth.refused", "invalid API key", {})


def test_a_key_of_another_tenant_is_refused_in_the_same_words(office: Office) -> None:
    _, token = office.key()
    with pytest.raises(Denied, match="invalid API key") as refused:
        known(office, token, tenant="default")
    assert refused.value.error_code == "auth.refused"


def test_every_token_is_compared_in_constant_time_whether_its_id_exists_or_not(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[tuple[int, int]] = []

    def counted(one: str, other: str) -> bool:
        compared.append((len(one), len(other)))
        return hmac.compare_digest(one, other)

    monkeypatch.setattr(api_keys, "hmac", type("Counted", (), {"compare_digest": staticmethod(counted)}))
    _, token = office.key()
    known(office, token)
    for broken in (token[:4] + "aaaaaaaa" + token[12:], "nonsense", ""):
        with pytest.raises(Denied):
            known(office, broken)
    assert compared == [(64, 64)] * 4


def test_a_key_never_has_what_its_owner_lacks(office: Office) -> None:
    too_much: list[dict[str, Any]] = [{"roles": ["operator"]}, {"scopes": ["notes.delete"]}]
    for more in too_much:
        with pytest.raises(OperatorError, match="cannot have more than its owner") as refused:
            office.key(**more)
        assert refused.value.error_code == "api_key.too_much"
    assert office.read(lambda tx: list_keys(tx, "acme")) == []


def test_what_an_owner_loses_their_keys_lose_at_once_and_get_back_with_it(office: Office) -> None:
    _, token = office.key(roles=["member", "approver"], scopes=["email:send"])
    office.change(lambda change: change_rights(change, "ann", "roles", remove=["approver"]))
    office.change(lambda change: change_rights(change, "ann", "scopes", remove=["email:send"]))
    assert (known(office, token).roles, known(office, token).scopes) == ({"member"}, set())

    office.change(lambda change: change_rights(change, "ann", "roles", add=["operator", "approver"]))
    assert known(office, token).roles == {"member", "approver"}, "and what the owner gains it does not"


def test_an_operators_key_opens_the_scopes_that_were_named_and_closes_with_the_role(office: Office) -> None:
    office.change(lambda change: add_person(change, "olga", roles=["operator"]))
    _, token = office.key("olga", scopes=["anything:at-all"])
    assert (known(office, token).scopes, known(office, token).roles) == ({"anything:at-all"}, set())

    office.change(lambda change: change_rights(change, "olga", "roles", remove=["operator"]))
    assert known(office, token).scopes == set()


def test_a_key_decides_for_others_only_where_that_was_named(office: Office) -> None:
    quiet, _ = office.key()
    loud, _ = office.key(roles=["approver"])
    assert (quiet.roles, loud.roles) == ({"member"}, {"approver"})


def test_a_revoked_key_stays_listed_and_is_told_once(office: Office) -> None:
    key, _ = office.key()
    for _ in range(2):
        office.change(lambda change: revoke_key(change, f"key:{key.id}"))
    later = office.later(days=400)

    (listed,) = office.read(lambda tx: list_keys(tx, "acme", "ann"))
    assert (listed.state(later.now), listed.revoked_at) == ("revoked", NOON.isoformat())
    assert [one for one in office.told if isinstance(one, ApiKeyRevoked)] == [
        ApiKeyRevoked(key.id, "user:ann", "local:ada")
    ]
    with pytest.raises(NotFound):
        office.change(lambda change: revoke_key(change, key.id), "default")


def test_a_key_that_could_never_work_is_not_made(office: Office) -> None:
    with pytest.raises(OperatorError, match="is in the past"):
        office.key(expires_at=NOON)
    office.change(lambda change: set_disabled(change, "ann", True))
    with pytest.raises(Conflict, match="ann is disabled"):
        office.key()
    with pytest.raises(NotFound):
        office.key("nobody")


def test_when_a_key_was_used_is_written_at_most_once_a_minute(office: Office) -> None:
    key, _ = office.key()
    noted = [
        office.database.write(lambda tx, at=at: record_key_use(tx, f"key:{key.id}", NOON + timedelta(seconds=at)))
        for at in (0, 30, 59, 60, 100)
    ]
    assert noted == [True, False, False, True, False]
    (listed,) = office.read(lambda tx: list_keys(tx, "acme"))
    assert listed.last_used_at == (NOON + timedelta(seconds=60)).isoformat()
    assert replace(listed, last_used_at=None) == key
