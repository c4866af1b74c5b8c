"""What people are shown of a text that others wrote: all of it, and nothing but text."""

from __future__ import annotations

import time

import pytest

from paddock.console.forms.controls import build_control
from paddock.console.forms.fields import build_form
from paddock.console.page import frame_values
from paddock.console.templates import mark_invisible, render
from paddock.core.call import Principal
from paddock.core.ids import PrincipalId
from paddock.web.security.authenticate import Caller


def test_every_character_that_does_not_show_is_written_out_and_the_rest_is_text() -> None:
    shown = mark_invisible("<b>one</b>\n\ttwo\u202e\x1b")

    assert str(shown).partition("<mark")[0] == "&lt;b&gt;one&lt;/b&gt;\n\ttwo"
    assert [part[:6] for part in str(shown).split('show">')[1:]] == ["U+202E", "U+001B"]


@pytest.mark.parametrize("text", ["a", "<", "a\u202e"], ids=["plain", "escaped", "hidden"])
def test_a_long_text_holds_up_nobody(text: str) -> None:
    begun = time.thread_time()
    mark_invisible(text * (1_000_000 // len(text)))

    assert time.thread_time() - begun < 0.5, "one character after the other takes longer than a second"


def test_a_form_with_many_choices_holds_up_nobody() -> None:
    many = {f"field{number}": {"enum": [f"value {one}" for one in range(500)]} for number in range(18)}
    form = build_form(build_control({"type": "object", "properties": many}), {"field3": "value 7"})
    tool = {"name": "pick", "title": "", "description": "", "effects": [], "requires_approval": False, "offered": True}
    frame = frame_values(Caller(Principal(PrincipalId("user:ann")), None, "session"), "/") | {"said": "", "tour": None}
    begun = time.thread_time()

    shown = render(
        "plugins/run.html", {**frame, "plugin": "picker", "tool": tool, "form": form, "raw": False, "again": None}
    )

    assert time.thread_time() - begun < 0.5, "all choices are looked through for each of them"
    assert shown.count(" selected") == 1
