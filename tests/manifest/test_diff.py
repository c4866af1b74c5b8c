"""What an upgrade changes for the person who agreed to the old version."""

from __future__ import annotations

from typing import Any

import pytest
from tests.manifest.documents import native, sound

from paddock.manifest.compatibility import Change
from paddock.manifest.diff import Upgrade, upgrade_between


def upgrade(old: dict[str, Any], new: dict[str, Any]) -> Upgrade:
    return upgrade_between(
        sound(native(**({"version": "1.0.0"} | old))),
        sound(native(**({"version": "1.0.1"} | new))),
        lambda schema: schema,
        lambda schema: schema,
    )


def test_only_what_was_not_granted_needs_a_new_yes() -> None:
    found = upgrade(
        {"capabilities": ["write:fs:/opt/x", "net:a.example:*", "storage:read"]},
        {"capabilities": ["read:fs:/opt/x/y", "net:a.example:443", "storage:write"]},
    )

    assert [str(one) for one in found.added] == ["storage:write"]
    assert found.widens
    assert [str(one) for one in found.removed] == ["write:fs:/opt/x", "net:a.example:*", "storage:read"]


def test_saying_that_there_is_no_network_is_not_asking_for_anything() -> None:
    found = upgrade({"capabilities": []}, {"capabilities": ["net:[]"]})

    assert (found.added, found.removed, found.widens) == ((), (), False)


def test_other_lines_of_the_consent_screen_are_told_where_they_differ() -> None:
    found = upgrade(
        {"data_access": {"vault_read": True}, "tools": [{"name": "a", "effects": []}]},
        {"data_access": {"vault_write": True}, "tools": [{"name": "a", "effects": ["db_write"]}]},
    )

    assert "no longer: Reads your private knowledge vault" in found.changes
    assert "new: Stores its own progress in your private vault" in found.changes
    assert "new: writes to a database: a" in found.changes


def test_leaving_the_cage_is_said_first() -> None:
    found = upgrade({"runtime": {"command": ["x"]}}, {"runtime": {"url": "https://a.example"}})
    back = upgrade({"runtime": {"url": "https://a.example"}}, {"runtime": {"command": ["x"]}})

    assert "NOT caged" in found.changes[0]
    assert "cage" in back.changes[0]


def test_two_equal_versions_change_nothing() -> None:
    same = {"capabilities": ["net:a.example:1"], "tools": [{"name": "a", "input_schema": {"type": "object"}}]}
    found = upgrade(same, same)

    assert (found.added, found.removed, found.changes, found.compatibility) == ((), (), (), ())


@pytest.mark.req("K-16", "report at install")
@pytest.mark.parametrize(
    ("version", "reported"), [("1.0.1", {"a", "b", "c"}), ("1.1.0", {"a", "b"}), ("2.0.0", set[str]())]
)
def test_a_difference_larger_than_the_version_step_is_reported(version: str, reported: set[str]) -> None:
    found = upgrade(
        {"tools": [{"name": "a", "input_schema": {}}, {"name": "b"}]},
        {"version": version, "tools": [{"name": "a", "input_schema": {"required": ["x"]}}, {"name": "c"}]},
    )

    assert {difference.path.partition(".")[0] for difference in found.compatibility} == reported
    assert all(difference.change is not Change.NONE for difference in found.compatibility)
