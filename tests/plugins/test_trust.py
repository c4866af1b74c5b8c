"""Trusted keys, and what they make of a signed plugin, on both engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.packages import native, osqr, write_file
from fixtures.shelves import Shelf
from paddock.core.errors import Conflict, NotFound, PluginError
from paddock.plugins.manage.details import load_details
from paddock.plugins.manage.enable import enable
from paddock.plugins.manage.reach import list_reach
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.trust.signature import sign_package
from paddock.plugins.trust.signing_keys import generate_key
from paddock.plugins.trust.trusted_keys import distrust_key, list_trusted_keys, trust_key


def standing(shelf: Shelf, name: str = "notes") -> tuple[str, str]:
    facts = load_details(shelf.plugins, name).facts
    return str(facts["signature"]).partition(":")[0], str(facts["tier"])


def dangers(shelf: Shelf, name: str = "notes") -> list[str]:
    """Its dangerous permissions; the map of what plugins reach must tell the same."""
    found = [str(one.capability) for one in load_details(shelf.plugins, name).dangers]
    (reach,) = list_reach(shelf.plugins)
    assert list(reach.dangers) == found
    return found


def test_the_standing_of_a_signed_plugin_follows_the_keys_that_are_trusted(shelf: Shelf, tmp_path: Path) -> None:
    public = generate_key(tmp_path / "key.pem")
    package = native(tmp_path / "n", trust_claim="verified", capabilities=["net:api.example.com:443"])
    sign_package(package, tmp_path / "key.pem")
    shelf.take(package)
    enable(shelf.plugins, "notes")
    assert standing(shelf) == ("community-signed", "community")
    assert dangers(shelf) == ["net:api.example.com:443"]  # anyone can make a key

    row = trust_key(shelf.plugins, public, "Example Labs")
    assert standing(shelf) == ("verified", "verified")
    assert dangers(shelf) == []
    assert "signed by Example Labs" in load_details(shelf.plugins, "notes").facts["signature"]

    distrust_key(shelf.plugins, "Example Labs")
    assert standing(shelf) == ("community-signed", "community")
    assert dangers(shelf) == ["net:api.example.com:443"]
    assert [event.type for event in shelf.events()][-2:] == ["key.trusted", "key.removed"]
    assert row.key_id


@pytest.mark.parametrize("claim", ["verified", "community", "personal"])
def test_a_claim_never_raises_the_tier(shelf: Shelf, claim: str) -> None:
    shelf.install("Fourth Formula", make=lambda root, name, version: osqr(root, name, version, claim))

    assert standing(shelf, "fourth-formula") == ("unsigned", "personal")
    assert load_details(shelf.plugins, "fourth-formula").facts["trust_claim"] == claim


def test_a_claim_may_lower_the_tier(shelf: Shelf, tmp_path: Path) -> None:
    trust_key(shelf.plugins, generate_key(tmp_path / "key.pem"), "Example Labs")
    package = native(tmp_path / "n", trust_claim="community")
    sign_package(package, tmp_path / "key.pem")
    shelf.take(package)

    assert standing(shelf) == ("verified", "community")


def test_a_package_that_was_changed_after_signing_is_refused(shelf: Shelf, tmp_path: Path) -> None:
    generate_key(tmp_path / "key.pem")
    package = native(tmp_path / "n")
    sign_package(package, tmp_path / "key.pem")
    write_file(package / "run.sh", "#!/bin/sh\nevil\n", executable=True)
    with pytest.raises(PluginError) as refused:
        shelf.take(package)

    assert refused.value.error_code == "signature.mismatch"
    assert list_plugins(shelf.plugins) == []
    assert not list(shelf.plugins.staging.iterdir())


def test_an_installed_plugin_whose_files_changed_has_no_standing(shelf: Shelf, tmp_path: Path) -> None:
    trust_key(shelf.plugins, generate_key(tmp_path / "key.pem"), "Example Labs")
    package = native(tmp_path / "n", trust_claim="verified")
    sign_package(package, tmp_path / "key.pem")
    shelf.take(package)
    write_file(shelf.plugins.version_root("notes", "1.0.0") / "run.sh", "", executable=True)

    assert standing(shelf) == ("modified", "personal")


def test_keys_are_told_apart_by_id_where_labels_are_equal(shelf: Shelf, tmp_path: Path) -> None:
    rows = [trust_key(shelf.plugins, generate_key(tmp_path / f"{number}.pem"), "Labs") for number in range(2)]
    with pytest.raises(Conflict) as refused:
        distrust_key(shelf.plugins, "Labs")
    assert all(row.key_id in refused.value.hint for row in rows)

    distrust_key(shelf.plugins, rows[0].key_id)
    assert [row.key_id for row in shelf.plugins.database.read(list_trusted_keys)] == [rows[1].key_id]
    distrust_key(shelf.plugins, "Labs")
    with pytest.raises(NotFound):
        distrust_key(shelf.plugins, "Labs")


def test_trusting_a_key_again_only_renames_it(shelf: Shelf, tmp_path: Path) -> None:
    public = generate_key(tmp_path / "key.pem")
    trust_key(shelf.plugins, public, "Before")
    trust_key(shelf.plugins, public, "After")

    assert [row.label for row in shelf.plugins.database.read(list_trusted_keys)] == ["After"]
