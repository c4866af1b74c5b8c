"""What a person grants to an installed plugin: added to what it has, and checked like a start if it starts one."""

from __future__ import annotations

import pytest

from fixtures.shelves import Shelf
from paddock.core.errors import Invalid
from paddock.core.ids import Tenant
from paddock.manifest.capability import parse_capability
from paddock.plugins.manage.enable import disable, enable
from paddock.plugins.manage.grant import grant_capabilities
from paddock.plugins.store.rows import Grant, find_grant
from paddock.plugins.store.store import PluginStore

HOST, EVERY_HOST = "net:hay.example:443", "net:*"


def grant_of(store: PluginStore) -> Grant | None:
    return store.database.read(lambda tx: find_grant(tx, store.tenant, "notes"))


def test_a_grant_adds_to_the_earlier_ones_and_keeps_why_the_plugin_was_given_up(shelf: Shelf) -> None:
    row, acme = shelf.install(capabilities=[HOST, EVERY_HOST]), shelf.plugins.for_tenant(Tenant("acme"))
    grant_capabilities(acme, "notes", [parse_capability(HOST)], row.digest)
    disable(acme, "notes", given_up="fell five times")
    grant_capabilities(acme, "notes", [parse_capability(EVERY_HOST)], row.digest)
    grant = grant_of(acme)
    assert grant is not None
    assert (grant.enabled, grant.given_up) == (False, "fell five times")
    assert set(grant.capabilities) == {HOST, EVERY_HOST}


def test_a_grant_that_would_start_a_plugin_is_refused_where_it_may_not_start(shelf: Shelf) -> None:
    shelf.install(capabilities=[])
    acme = shelf.plugins.for_tenant(Tenant("acme"))
    enable(acme, "notes")
    runtime = {"command": ["no-such-program"]}
    row, earlier = shelf.install(version="2.0.0", capabilities=[HOST], runtime=runtime), grant_of(acme)
    with pytest.raises(Invalid) as refused:
        grant_capabilities(acme, "notes", [parse_capability(HOST)], row.digest)
    assert [problem.code for problem in refused.value.problems] == ["program_missing"]
    assert grant_of(acme) == earlier
