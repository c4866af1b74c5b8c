"""The places of the console and their sections: what the navigation shows to a caller, and where a page hangs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from paddock.web.routing.route import HOST, MEMBER, OPERATOR, Access
from paddock.web.security.authenticate import Caller


class Section(Struct, frozen=True):
    """A tab of a place.

    Attributes:
        path: Its page.
        label: Its tab.
        access: The callers that see the tab.
        roots: Paths of further pages that hang below the tab, beside those below `path`.
    """

    path: str
    label: str
    access: Access = MEMBER
    roots: tuple[str, ...] = ()


class Place(Struct, frozen=True):
    """An entry of the navigation. It leads to the first of its sections that the caller may see.

    Attributes:
        key: Its icon and its badge.
        label: What people read.
        sections: Its tabs, in their order.
    """

    key: str
    label: str
    sections: tuple[Section, ...]


PLACES: Final = (
    Place("home", "Home", (Section("/", "Home"),)),
    Place(
        "inbox",
        "Inbox",
        (
            Section("/inbox", "Needs you", roots=("/approvals",)),
            Section("/approvals/history", "All requests"),
            Section("/approvals/standing", "Standing approvals"),
            Section("/unknown-outcomes", "Unknown outcomes", OPERATOR),
            Section("/repairs", "Repairs", OPERATOR),
        ),
    ),
    Place(
        "plugins",
        "Plugins",
        (Section("/plugins", "Installed"), Section("/install", "Install", HOST), Section("/map", "Map", OPERATOR)),
    ),
    Place(
        "activity",
        "Activity",
        (
            Section("/activity", "Calls", roots=("/calls",)),
            Section("/ledger", "Ledger", OPERATOR),
            Section("/ledger/verify", "Verify", OPERATOR),
        ),
    ),
    Place(
        "admin",
        "Admin",
        (
            Section("/policy", "Rules", OPERATOR),
            Section("/policy/try", "Try a decision", OPERATOR),
            Section("/policy/tests", "Rule tests", OPERATOR),
            Section("/explain", "Explain", OPERATOR),
            Section("/secrets", "Secrets", OPERATOR),
            Section("/settings/people", "People", OPERATOR),
            Section("/settings/groups", "Groups", OPERATOR),
            Section("/settings/keys", "API keys", OPERATOR),
            Section("/settings/webhooks", "Webhooks", OPERATOR),
            Section("/settings/host", "Host", HOST),
        ),
    ),
)
"""What is served today. A place or tab is added here with its first page."""

PERSONAL: Final = Place(
    "you",
    "You",
    (
        Section("/settings", "Profile"),
        Section("/accounts", "Accounts"),
        Section("/settings/keys", "API keys"),
    ),
)
"""The caller's own pages. They are in the menu under the caller's name and not in the navigation."""


class Position(Struct, frozen=True):
    """Where a page hangs.

    Attributes:
        place: Its place; None if it hangs in none.
        section: The tab that it belongs to.
        tabs: The place's tabs that the caller may see.
    """

    place: Place | None
    section: Section | None
    tabs: tuple[Section, ...]


def visible_places(caller: Caller) -> list[tuple[Place, str]]:
    """Return the places that a caller may see, each with the path that it leads to."""
    return [(place, tabs[0].path) for place in PLACES if (tabs := visible_sections(place, caller))]


def visible_sections(place: Place, caller: Caller) -> tuple[Section, ...]:
    """Return the tabs of a place that a caller may see."""
    return tuple(section for section in place.sections if section.access.allows(caller))


def position_of(path: str, caller: Caller) -> Position:
    """Return where the page at a path hangs for a caller: the visible tab whose path is the longest prefix."""
    best_root, position = "", Position(None, None, ())
    for place in (*PLACES, PERSONAL):
        tabs = visible_sections(place, caller)
        for root, section in _roots(tabs):
            if len(root) > len(best_root) and (path == root or (root != "/" and path.startswith(f"{root}/"))):
                best_root, position = root, Position(place, section, tabs)
    return position


def _roots(sections: Sequence[Section]) -> Iterator[tuple[str, Section]]:
    for section in sections:
        yield section.path, section
        for root in section.roots:
            yield root, section
