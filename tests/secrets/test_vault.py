"""Secrets are set, found by scope, listed without values, and erased; each tenant's and each person's are their own."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest

from fixtures.all_cases import all_cases
from paddock.core.errors import HostError, NotFound, OperatorError
from paddock.core.events.secrets import SecretRemoved, SecretSet
from paddock.core.ids import Tenant
from paddock.secrets.requirements import SecretScope
from paddock.secrets.rows import validate_secret_name

from .safe import ANN, Safe, keys_at, open_safe


@pytest.fixture
def safe(database_address: str, tmp_path: Path) -> Generator[Safe, None, None]:
    with open_safe(database_address, tmp_path / "state") as opened:
        yield opened


def test_a_persons_secret_is_preferred_and_the_systems_is_there_only_where_allowed(safe: Safe) -> None:
    safe.set("api_key", "of-all")
    assert safe.get("api_key") == "of-all"
    assert safe.get("api_key", order=(SecretScope.USER,)) is None

    safe.set("api_key", "of-ann", ANN)

    assert safe.get("api_key") == "of-ann"
    assert safe.get("api_key", order=(SecretScope.SYSTEM,)) == "of-all"
    assert safe.get("api_key", "user:bob") == "of-all"
    assert safe.get("api_key", None) == "of-all", "nobody has no secrets of their own"
    assert safe.get("api_key", None, (SecretScope.USER,)) is None


@pytest.mark.req("B-22", "secrets")
def test_a_tenant_never_gets_anothers(safe: Safe) -> None:
    safe.set("api_key", "of-acme")
    assert safe.get("api_key", tenant=Tenant("default")) is None


def test_a_new_version_takes_the_place_of_the_one_before(safe: Safe) -> None:
    assert safe.set("api_key", "one").version == 1
    assert safe.set("api_key", "two").version == 2
    assert safe.get("api_key") == "two"
    assert safe.names() == [("api_key", "", 2)]


def test_a_removed_secret_is_gone_and_its_versions_never_come_again(safe: Safe) -> None:
    safe.set("api_key", "one")
    safe.remove("api_key")

    assert safe.get("api_key") is None
    assert safe.names() == []
    with pytest.raises(NotFound):
        safe.remove("api_key")
    row = safe.database.read(lambda tx: tx.one("SELECT wrapped, sealed, key_id FROM secrets"))
    assert row == {"wrapped": None, "sealed": None, "key_id": None}
    assert safe.set("api_key", "again").version == 2


def test_what_happens_is_told_without_a_value(safe: Safe) -> None:
    safe.set("api_key", "hunter2", ANN)
    safe.remove("api_key", ANN)
    assert safe.told == [
        SecretSet(secret="api_key", scope="user", version=1, owner=ANN, by="local:ada"),
        SecretRemoved(secret="api_key", scope="user", owner=ANN, by="local:ada"),
    ]


@pytest.mark.req("B-22", "secrets")
def test_a_row_moved_to_another_tenant_by_hand_opens_nothing(safe: Safe) -> None:
    safe.set("api_key", "hunter2")
    safe.database.write(lambda tx: tx.execute("UPDATE secrets SET tenant = 'default'"))
    with pytest.raises(HostError) as refused:
        safe.get("api_key", tenant=Tenant("default"))
    assert refused.value.error_code == "secret.unreadable"


def test_without_its_key_nothing_opens_and_no_other_key_is_made_in_its_place(safe: Safe, tmp_path: Path) -> None:
    safe.set("api_key", "hunter2")
    elsewhere = Safe(safe.database, keys_at(tmp_path / "another"))

    for act in (lambda: elsewhere.get("api_key"), lambda: elsewhere.set("other", "x"), elsewhere.rotate):
        with pytest.raises(HostError) as refused:
            act()
        assert refused.value.error_code == "secret.key_missing"
    assert not (tmp_path / "another").exists()


def test_the_key_is_beside_the_state_and_readable_by_its_owner_alone(safe: Safe, tmp_path: Path) -> None:
    safe.set("api_key", "hunter2")
    (file,) = (tmp_path / "state" / "keys" / "secrets").iterdir()
    assert file.stat().st_mode & 0o777 == 0o600

    file.chmod(0o640)
    again = Safe(safe.database, keys_at(tmp_path / "state"))
    with pytest.raises(OperatorError, match="others can read it"):
        again.get("api_key")


@all_cases(
    "name",
    ["", "two words", "brace}", "ünï", "x" * 129, "line\n", "a;id", "a|sh", "$a", "a`id`", "a&", "-a", "~a", "a=b"],
)
def test_names_that_no_secret_can_have(name: str) -> None:
    with pytest.raises(OperatorError):
        validate_secret_name(name)
