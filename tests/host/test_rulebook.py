"""Rules that come in force while a host runs, or while none does: each change is on record."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.gate.test_governed_calls import Office

from fixtures.small_disks import fill, small_disk
from paddock.core.errors import StoreUnavailable

NO_NOTES = (
    '@id("no-notes") @text("Nobody writes notes.")\nforbid (principal, action, resource == Callable::"mail.note");'
)
NO_LOOKS = NO_NOTES.replace("note", "look")


@pytest.fixture
def office(tmp_path: Path) -> Office:
    return Office(tmp_path)


def changes(office: Office) -> list[tuple[str, str]]:
    told = [entry.data for entry in office.ledger() if entry.type == "policy.changed"]
    return [(one["old_version"], one["new_version"]) for one in told]


async def test_a_change_of_the_rules_is_an_entry_with_the_version_before_and_the_new_one(office: Office) -> None:
    async with office.open() as host:
        first = host.policy.active.policy.version
        await host.policy.active.reload_if_changed()
        office.rule(NO_NOTES)
        await host.policy.active.reload_if_changed()
        second = host.policy.active.policy.version
        await host.policy.active.reload_if_changed()

    assert first != second
    assert changes(office) == [(first, second)]


async def test_rules_that_were_changed_while_no_host_ran_are_recorded_when_one_opens(office: Office) -> None:
    async with office.open() as host:
        first = host.policy.active.policy.version
    async with office.open():
        pass
    assert changes(office) == []  # the first rules of a home take no others' place, and the same again are no news

    office.rule(NO_LOOKS)
    async with office.open() as host:
        assert changes(office) == [(first, host.policy.active.policy.version)]


async def test_rules_that_cannot_be_put_on_record_do_not_decide_until_they_can(office: Office) -> None:
    with small_disk(office.home / "data", "2m") as disk:
        async with office.open() as host:
            first = host.policy.active.policy.version
            filler = fill(disk)
            office.rule(NO_NOTES)
            with pytest.raises(StoreUnavailable):
                await host.policy.active.reload_if_changed()
            assert host.policy.active.policy.version == first

            filler.unlink()
            await host.policy.active.reload_if_changed()
            assert "no-notes" in host.policy.active.policy.rules.by_id
        assert changes(office) == [(first, host.policy.active.policy.version)]
