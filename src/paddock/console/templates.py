"""The templates of all pages, and the few words of their own that they have. What a plugin says is text in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from paddock.console.static_files import static_url
from paddock.console.text.principal_text import (
    approval_state_severity,
    approval_state_text,
    capitalize_first,
    multiline_params,
    principal_name,
    requester_name,
)

_TEMPLATE_DIR: Final = Path(__file__).parent / "templates"
_CALL_SEVERITIES: Final = {
    "succeeded": "good",
    "running": "busy",
    "in_progress": "busy",
    "pending_approval": "busy",
    "cancelled": "calm",
}
_TIME_UNITS: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def render(name: str, values: Mapping[str, Any]) -> str:
    """A template, filled in."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    made: Any = Environment(
        loader=FileSystemLoader(_TEMPLATE_DIR),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = {
        "ago": relative_time,
        "moment": time_element,
        "pretty": pretty_json,
        "visible": mark_invisible,
        "counted": pluralize,
        "mood": call_severity,
    }
    filters |= {
        "who": principal_name,
        "asker": requester_name,
        "asked_words": approval_state_text,
        "asked_mood": approval_state_severity,
    }
    filters |= {"sentence": capitalize_first, "texts": multiline_params}
    made.filters.update(filters)
    made.globals["static"] = static_url
    return made


def time_element(at: str | None) -> Markup:
    """A time of the ledger for people: as they say it, with the exact one behind it."""
    if not at:
        return Markup("")
    exact = escape(at)
    return Markup(f'<time datetime="{exact}" title="{exact}">{escape(relative_time(at))}</time>')  # noqa: S704 - both are escaped


def relative_time(at: str, now: datetime | None = None) -> str:
    """How long ago a time was, or how far ahead it is."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return at
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    ahead, seconds = seconds < 0, abs(seconds)
    for size, word in _TIME_UNITS:
        if seconds >= size:
            told = pluralize(int(seconds // size), word)
            break
    else:
        told = "a moment" if seconds < 10 else pluralize(int(seconds), "second")
    return f"in {told}" if ahead else f"{told} ago"


def call_severity(status: str) -> str:
    """How what became of a call is shown."""
    return _CALL_SEVERITIES.get(status, "bad")


def pluralize(count: int, word: str, words: str = "") -> str:
    """`3 plugins`, `1 plugin`; `words` are those for more than one, where an s will not do."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def pretty_json(value: Any) -> Markup:
    """A value as JSON, with what does not show made visible."""
    return mark_invisible(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def mark_invisible(text: str) -> Markup:
    """A text as it is, with every character that does not show, or turns others around, written out and marked.

    Whoever approves something has to see all of it: a zero-width space, a line that runs from right to left, an escape
    sequence.
    """
    # Not one character after the other: with a mebibyte that would hold up everybody for a second.
    unseen = [one for one in set(text) if not (one.isprintable() or one in "\n\t")]
    marks = {
        ord(one): f'<mark class="unseen" title="a character that does not show">U+{ord(one):04X}</mark>'
        for one in unseen
    }
    return Markup(str(escape(text)).translate(marks))  # noqa: S704 - escaped, and the marks are ours


@dataclass(frozen=True, slots=True)
class HtmlFragment:
    """HTML as an event without a name: htmx swaps those in, and only tells scripts of named ones."""

    html: str

    def encode(self) -> bytes:
        return b"".join(b"data: %s\n" % line.encode() for line in self.html.splitlines()) + b"\n"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Nothing more will change: `console.js` keeps the browser from connecting again to what has ended."""

    def encode(self) -> bytes:
        return b"event: over\ndata: \n\n"


def render_fragment(template: str, values: Mapping[str, Any]) -> HtmlFragment:
    """A template as such a part."""
    return HtmlFragment(render(template, values))
