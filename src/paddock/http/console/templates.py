"""The templates of all pages, and the few words of their own that they have. What a plugin says is text in them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from paddock.http.console.spoken import asked_mood, asked_words, asker, sentence, texts, who
from paddock.http.console.static_files import address_of

_FOLDER: Final = Path(__file__).parent / "templates"
_MOODS: Final = {
    "succeeded": "good",
    "running": "busy",
    "in_progress": "busy",
    "pending_approval": "busy",
    "cancelled": "calm",
}
_AGES: Final = ((86_400, "day"), (3_600, "hour"), (60, "minute"))


def render(name: str, values: Mapping[str, Any]) -> str:
    """A template, filled in."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    made: Any = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    filters = {"ago": ago, "moment": moment, "pretty": pretty, "visible": visible, "counted": counted, "mood": mood}
    filters |= {"who": who, "asker": asker, "asked_words": asked_words, "asked_mood": asked_mood}
    filters |= {"sentence": sentence, "texts": texts}
    made.filters.update(filters)
    made.globals["static"] = address_of
    return made


def moment(at: str | None) -> Markup:
    """A time of the ledger for people: as they say it, with the exact one behind it."""
    if not at:
        return Markup("")
    exact = escape(at)
    return Markup(f'<time datetime="{exact}" title="{exact}">{escape(ago(at))}</time>')  # noqa: S704 - both are escaped


def ago(at: str, now: datetime | None = None) -> str:
    """How long ago a time was, or how far ahead it is."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return at
    seconds = ((now or datetime.now(UTC)) - then).total_seconds()
    ahead, seconds = seconds < 0, abs(seconds)
    for size, word in _AGES:
        if seconds >= size:
            told = counted(int(seconds // size), word)
            break
    else:
        told = "a moment" if seconds < 10 else counted(int(seconds), "second")
    return f"in {told}" if ahead else f"{told} ago"


def mood(status: str) -> str:
    """How what became of a call is shown."""
    return _MOODS.get(status, "bad")


def counted(count: int, word: str, words: str = "") -> str:
    """`3 plugins`, `1 plugin`; `words` are those for more than one, where an s will not do."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def pretty(value: Any) -> Markup:
    """A value as JSON, with what does not show made visible."""
    return visible(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def visible(text: str) -> Markup:
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
