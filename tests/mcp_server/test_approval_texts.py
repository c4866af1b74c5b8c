"""What people read in a chat about a call that waits: where they answer, and how they sign in there."""

from __future__ import annotations

from typing import Any

import pytest

from paddock.core.errors import NeedsApproval
from paddock.mcp_server.approval_text import pending_text
from paddock.web.daemon_address import ConsoleAddress

HERE = ConsoleAddress("https://paddock.example.org", running=True)


def text(console: ConsoleAddress, *, tenant: str = "default", provider: bool = False, **other: Any) -> str:
    details = {"approval": "apr_1", "call_id": "call_1", "four_eyes": False, "answerable_by": ["user:ann"]} | other
    waits = NeedsApproval("mail send waits for a person", details=details)
    return pending_text(waits, console, tenant, identity_provider=provider)


@pytest.mark.parametrize(
    ("console", "place"),
    [
        (HERE, "Where: https://paddock.example.org/approvals/apr_1\n"),
        (
            ConsoleAddress("http://127.0.0.1:7433", running=False),
            "Start it with `paddock serve`, then open http://127.0.0.1:7433/approvals/apr_1.",
        ),
        (ConsoleAddress(None, running=False), "then open /approvals/apr_1 at the address that it prints"),
        (
            ConsoleAddress(None, running=True, off=True),
            "Where: at a terminal of this host, beginning with `paddock approval show apr_1`. It has no console",
        ),
    ],
)
def test_the_place_is_the_page_or_what_has_to_be_started_first(console: ConsoleAddress, place: str) -> None:
    words = text(console)

    assert place in words
    assert ("To sign in there" in words) is not console.off
    assert "approval approve" not in words, "a model with a shell would type it"


@pytest.mark.parametrize(
    ("who", "tenant", "provider", "way"),
    [
        (["user:ann"], "default", False, "`paddock login --user ann`"),
        (["user:ann"], "acme", False, "`paddock login --user ann --tenant acme`"),
        (["user:ann"], "default", True, "your account at the identity provider"),
        (["local:root"], "default", True, "the link that `paddock login` prints"),
        (["role:approver", "group:night-shift"], "default", False, "`paddock login --user NAME`"),
    ],
)
def test_the_way_in_is_that_of_who_can_answer(who: list[str], tenant: str, provider: bool, way: str) -> None:
    assert way in text(HERE, tenant=tenant, provider=provider, answerable_by=who)


def test_people_roles_and_groups_are_named_and_that_it_must_be_another_person() -> None:
    words = text(HERE, answerable_by=["role:approver", "group:night-shift", "user:eve"], four_eyes=True)

    assert "a person with the role approver or a member of night-shift or user:eve who did not ask for it" in words
