"""Versions side by side: going back, thirty days of grace, and pins."""

from __future__ import annotations

import pytest

from fixtures.packages import native
from fixtures.shelves import Shelf
from paddock.core.action import Action
from paddock.core.errors import Conflict, NeedsConsent, NotFound, PluginError
from paddock.plugins.install.commit import commit_install
from paddock.plugins.install.consent import full_consent
from paddock.plugins.install.resolve import resolve_package
from paddock.plugins.manage.enable import enable
from paddock.plugins.manage.remove import uninstall_version
from paddock.plugins.package.source import parse_source
from paddock.plugins.store.listing import list_plugins
from paddock.plugins.store.lookup import resolve_plugin
from paddock.plugins.store.rows import find_grant, versions_of
from paddock.plugins.store.versions import find_rollback_target, pin_version, roll_back, unpin_version


def versions(shelf: Shelf) -> list[str]:
    return [row.version for row in shelf.plugins.database.read(lambda tx: versions_of(tx, "notes"))]


def in_use(shelf: Shelf) -> str:
    return resolve_plugin(shelf.plugins, "notes").manifest.version


def go_back(shelf: Shelf, version: str | None = None) -> None:
    now, target, _, new = find_rollback_target(shelf.plugins, "notes", version)
    roll_back(shelf.plugins, now, target, new)


def test_going_back_goes_to_the_version_before_and_takes_its_grants_along(shelf: Shelf) -> None:
    shelf.install(version="1.0.0", capabilities=["net:one.example.com:443"])
    enable(shelf.plugins, "notes")
    shelf.install(version="1.1.0", capabilities=["net:two.example.com:443"])
    now, target, difference, new = find_rollback_target(shelf.plugins, "notes", None)

    assert (now.version, target.version) == ("1.1.0", "1.0.0")
    assert [str(one) for one in difference.added] == ["net:one.example.com:443"]
    assert [str(one) for one in difference.removed] == ["net:two.example.com:443"]
    assert [str(one) for one in new] == ["net:one.example.com:443"]
    with pytest.raises(NeedsConsent):
        roll_back(shelf.plugins, now, target, [])
    assert in_use(shelf) == "1.1.0"
    roll_back(shelf.plugins, now, target, new)
    assert in_use(shelf) == "1.0.0"
    grant = shelf.plugins.database.read(lambda tx: find_grant(tx, shelf.plugins.tenant, "notes"))
    assert grant is not None
    assert (grant.enabled, grant.capabilities, grant.digest) == (True, ("net:one.example.com:443",), target.digest)
    assert [event.type for event in shelf.events("notes")][-1] == "plugin.rolled_back"


def test_going_back_always_goes_to_an_earlier_version_unless_one_is_named(shelf: Shelf) -> None:
    for version in ("1.0.0", "1.1.0", "1.2.0"):
        shelf.install(version=version)
    go_back(shelf)
    assert in_use(shelf) == "1.1.0"
    go_back(shelf)
    assert in_use(shelf) == "1.0.0"
    with pytest.raises(NotFound, match=r"before 1\.0\.0"):
        go_back(shelf)
    go_back(shelf, "1.2.0")
    assert in_use(shelf) == "1.2.0"
    assert versions(shelf) == ["1.2.0", "1.1.0", "1.0.0"]


def test_a_pin_that_comes_while_a_person_decides_holds(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    now, target, _, _ = find_rollback_target(shelf.plugins, "notes", None)
    package = native(shelf.folder / "next", version="2.0.0", capabilities=["net:*"])
    with resolve_package(shelf.plugins, parse_source(str(package))) as prepared:
        pin_version(shelf.plugins, "notes")
        with pytest.raises(Conflict):
            commit_install(shelf.plugins, prepared, full_consent(prepared))
        with pytest.raises(Conflict):
            roll_back(shelf.plugins, now, target, [])
    assert in_use(shelf) == "1.1.0"


def test_a_pin_holds_wherever_it_fits_the_constraint(shelf: Shelf) -> None:
    for version in ("1.0.0", "1.5.0", "2.0.0"):
        shelf.install(version=version)
    pin_version(shelf.plugins, "notes", "1.0.0")
    assert resolve_plugin(shelf.plugins, "notes", "1.x").manifest.version == "1.0.0"
    assert resolve_plugin(shelf.plugins, "notes", "2.x").manifest.version == "2.0.0"


def test_a_decision_about_a_plugin_that_moved_meanwhile_is_refused(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    now, target, _, _ = find_rollback_target(shelf.plugins, "notes", None)
    shelf.install(version="1.2.0")

    with pytest.raises(Conflict) as refused:
        roll_back(shelf.plugins, now, target, [])
    assert refused.value.error_code == "plugin.changed_meanwhile"
    assert in_use(shelf) == "1.2.0"


@pytest.mark.req("O-14", "thirty days")
def test_an_old_version_is_kept_for_thirty_days_and_then_let_go(shelf: Shelf) -> None:
    old = shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    shelf.clock.turn(days=29, hours=23)
    shelf.install("other", "1.0.0")
    assert versions(shelf) == ["1.1.0", "1.0.0"]
    assert shelf.plugins.blobs.has(old.blob)

    shelf.clock.turn(hours=2)
    shelf.install("other", "1.1.0")
    assert versions(shelf) == ["1.1.0"]
    shelf.clock.turn(hours=2)
    shelf.plugins.sweep()  # a shared store lets packages go only after a time of grace
    assert not shelf.plugins.blobs.has(old.blob)
    assert not shelf.plugins.version_root("notes", "1.0.0").exists()
    with pytest.raises(NotFound, match=r"before 1\.1\.0"):
        find_rollback_target(shelf.plugins, "notes", None)
    # The one in use is never too old.
    shelf.clock.turn(days=400)
    shelf.install("other", "1.2.0")
    assert versions(shelf) == ["1.1.0"]


def test_the_days_of_grace_begin_when_a_version_is_left(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.clock.turn(days=100)
    shelf.install(version="1.1.0")
    shelf.clock.turn(days=20)
    go_back(shelf)
    shelf.clock.turn(days=20)
    # Forty days after 1.1.0 came, twenty after it was left.
    shelf.install("other", "1.0.0")
    assert versions(shelf) == ["1.1.0", "1.0.0"]


def test_a_pinned_version_is_never_let_go_and_has_its_days_when_the_pin_is_taken_off(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    pin_version(shelf.plugins, "notes", "1.0.0")
    assert in_use(shelf) == "1.0.0"
    shelf.clock.turn(days=300)
    shelf.install("other", "1.0.0")
    assert versions(shelf) == ["1.1.0", "1.0.0"]

    unpin_version(shelf.plugins, "notes")
    assert in_use(shelf) == "1.1.0"
    shelf.install("other", "1.1.0")
    assert versions(shelf) == ["1.1.0", "1.0.0"]
    shelf.clock.turn(days=31)
    shelf.install("other", "1.2.0")
    assert versions(shelf) == ["1.1.0"]


def test_a_pin_holds_against_upgrades_and_going_back(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    pin_version(shelf.plugins, "notes")
    with pytest.raises(Conflict) as refused:
        shelf.install(version="1.2.0")
    assert refused.value.error_code == "plugin.pinned"
    with pytest.raises(Conflict, match=r"pinned to 1\.1\.0"):
        find_rollback_target(shelf.plugins, "notes", None)
    with pytest.raises(NotFound, match=r"7\.0\.0"):
        pin_version(shelf.plugins, "notes", "7.0.0")
    assert versions(shelf) == ["1.1.0", "1.0.0"]


@pytest.mark.req("O-14", "a removed pin is told")
def test_a_pinned_version_that_was_removed_is_told_with_what_to_do(shelf: Shelf) -> None:
    shelf.install(version="1.0.0")
    shelf.install(version="1.1.0")
    pin_version(shelf.plugins, "notes", "1.0.0")
    with pytest.raises(Conflict):
        uninstall_version(shelf.plugins, "notes", "1.0.0")
    uninstall_version(shelf.plugins, "notes", "1.0.0", force=True)

    with pytest.raises(PluginError) as refused:
        resolve_plugin(shelf.plugins, "notes")
    assert refused.value.error_code == "plugin.pinned_version_removed"
    assert refused.value.action == Action.of("plugin.unpin", plugin="notes")
    assert [one.state for one in list_plugins(shelf.plugins)] == ["version missing"]
    unpin_version(shelf.plugins, "notes")
    assert in_use(shelf) == "1.1.0"


def test_a_pin_moves_the_grant_to_the_version_in_use_and_never_widens_it(shelf: Shelf) -> None:
    first = shelf.install(version="1.0.0", capabilities=[])
    second = shelf.install(version="1.1.0", capabilities=["net:one.example.com:443"])
    third = shelf.install(version="1.2.0", capabilities=["net:two.example.com:443"])

    def digest() -> str:
        grant = shelf.plugins.database.read(lambda tx: find_grant(tx, shelf.plugins.tenant, "notes"))
        assert grant is not None
        return grant.digest

    pin_version(shelf.plugins, "notes", "1.0.0")
    assert digest() == first.digest
    with pytest.raises(NeedsConsent) as refused:
        pin_version(shelf.plugins, "notes", "1.1.0")
    assert refused.value.details == {"capabilities": ["net:one.example.com:443"]}
    assert digest() == first.digest
    unpin_version(shelf.plugins, "notes")
    assert digest() == third.digest
    assert second.version in versions(shelf)


def test_versions_that_differ_only_in_their_build_stand_side_by_side(shelf: Shelf) -> None:
    shelf.install(version="1.0.0+aaa")
    shelf.install(version="1.0.0+bbb")
    assert in_use(shelf) == "1.0.0+bbb"
    assert versions(shelf) == ["1.0.0+bbb", "1.0.0+aaa"]
    go_back(shelf)
    assert in_use(shelf) == "1.0.0+aaa"
