"""Actions in the console: each leads to a page that exists, or is known to have none."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
from starlette.routing import compile_path

from fixtures.all_cases import all_cases
from paddock.console.routes import console_pages
from paddock.console.text.action_text import PAGES, action_link, next_step, page_address
from paddock.core.action import SENTENCES, Action, ActionKind, action_kinds, template_arguments
from paddock.core.errors import NotFound


class _AnyHost(SimpleNamespace):
    """Pages only keep the host while routes are listed."""

    def __getattr__(self, name: str) -> Any:
        return _AnyHost()


@pytest.fixture(scope="module")
def addresses() -> list[Any]:
    pages = console_pages(cast("Any", _AnyHost()), asyncio.Event())
    return [compile_path(page.path)[0] for page in pages if page.method == "GET"]


@all_cases("kind", action_kinds())
def test_every_action_has_a_page_that_exists_or_none(kind: ActionKind, addresses: list[Any]) -> None:
    declared = template_arguments(SENTENCES[kind])
    page = page_address(Action(kind, dict.fromkeys(declared, "a/b")))
    if page is None:
        assert PAGES[kind] is None
        return
    assert template_arguments(PAGES[kind] or "").keys() <= declared.keys()
    assert any(pattern.match(urlsplit(page).path) for pattern in addresses), page


def test_an_error_s_action_is_a_link_with_its_words_escaped() -> None:
    error = NotFound("it is off", action=Action.of("plugin.enable", plugin="<b>"))
    assert next_step(error) == ' <a href="/plugins/%3Cb%3E">Enable the plugin &lt;b&gt;</a>'


def test_an_error_in_json_gives_the_same_link() -> None:
    action = Action.of("plugin.logs", plugin="notes")
    assert next_step({"action": action.to_json()}) == next_step(NotFound("", action=action))
    assert next_step({"message": "nothing to do"}) == next_step(None) == ""


def test_an_action_without_a_page_is_a_sentence() -> None:
    assert action_link(Action.of("daemon.start")) == "Start the daemon."


def test_an_error_of_a_call_does_not_lead_from_its_page_to_itself() -> None:
    explain, unknown = (
        NotFound("", action=Action.of(kind, call="call_1")) for kind in ("call.explain", "call.unresolved.show")
    )
    assert next_step(explain, "call_1") == ' <a href="#decision">See the decision</a>'
    assert next_step(unknown, "call_1") == ""
    assert "/calls/call_1" in next_step(explain, "call_2")
