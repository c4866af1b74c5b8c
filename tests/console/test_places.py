"""The navigation of the console: places and tabs lead to pages that are served, and pages know where they hang."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from fixtures.all_cases import all_cases
from paddock.console.page import Page
from paddock.console.places import PERSONAL, PLACES, Section, position_of, visible_places
from paddock.console.routes import console_pages
from paddock.core.call import OPERATOR, Principal
from paddock.core.ids import PrincipalId, Tenant
from paddock.host.host import Host
from paddock.web.security.authenticate import Caller

ANN = Caller(Principal(PrincipalId("user:ann")), None, "session")
OLGA = Caller(Principal(PrincipalId("user:olga"), roles=frozenset({OPERATOR})), None, "session")
TENANT_OPERATOR = Caller(
    Principal(PrincipalId("acme/user:eve"), tenant=Tenant("acme"), roles=frozenset({OPERATOR})), None, "session"
)
SECTIONS = [section for place in (*PLACES, PERSONAL) for section in place.sections]


class _Nothing:
    """A host that is only asked for its parts, which no page uses before it is opened."""

    def __getattr__(self, name: str) -> _Nothing:
        return self


@pytest.fixture(scope="module")
def served() -> dict[str, Page]:
    pages = console_pages(cast("Host", _Nothing()), asyncio.Event())
    return {page.path: page for page in pages if page.method == "GET"}


@all_cases("section", SECTIONS, ids=lambda section: section.path)
def test_every_tab_leads_to_a_page_that_serves_those_who_see_it(section: Section, served: dict[str, Page]) -> None:
    assert section.path in served
    for caller in (ANN, OLGA, TENANT_OPERATOR):
        assert not section.access.allows(caller) or served[section.path].access.allows(caller)


def test_people_see_the_places_that_are_for_them() -> None:
    assert [place.label for place, _ in visible_places(ANN)] == ["Home", "Inbox", "Plugins", "Activity"]
    assert [place.label for place, _ in visible_places(OLGA)] == ["Home", "Inbox", "Plugins", "Activity", "Admin"]
    assert "Host" not in [tab.label for tab in position_of("/policy", TENANT_OPERATOR).tabs]


@pytest.mark.parametrize(
    ("path", "place", "section"),
    [
        ("/", "Home", "Home"),
        ("/plugins/greeter/settings", "Plugins", "Installed"),
        ("/install/inst_1", "Plugins", "Install"),
        ("/ledger/verify", "Activity", "Verify"),
        ("/calls/call_1", "Activity", "Calls"),
        ("/policy/versions/pol_1", "Admin", "Rules"),
        ("/settings/people/bo", "Admin", "People"),
        ("/settings", "You", "Profile"),
    ],
)
def test_a_page_hangs_below_the_tab_with_the_longest_path(path: str, place: str, section: str) -> None:
    position = position_of(path, OLGA)

    assert position.place is not None
    assert position.section is not None
    assert (position.place.label, position.section.label) == (place, section)


def test_a_path_that_only_begins_with_the_same_letters_hangs_nowhere() -> None:
    assert position_of("/policyholders", OLGA).place is None
