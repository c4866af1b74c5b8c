"""Template rendering: the Jinja environment (autoescaped), its filters, and HTML fragments for live updates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context
from markupsafe import Markup, escape

from paddock.console.static_files import static_url
from paddock.console.text.action_text import action_link, next_step
from paddock.console.text.inbox_text import consent_sentence
from paddock.console.text.principal_text import (
    approval_scope_text,
    approval_state_severity,
    approval_state_text,
    capitalize_first,
    multiline_params,
    principal_name,
    requester_name,
)
from paddock.core.printable import count_text
from paddock.ledger.text.sentence_template import duration_text
from paddock.plugins.package.rules import format_bytes

NAMES: Final = "names_by_principal"
"""The template value with what people and API keys are called, by principal."""
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
    """Render a template."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    environment: Any = Environment(
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
        "clock": clock_element,
        "exact": exact_element,
        "pretty": pretty_json,
        "visible": mark_invisible,
        "counted": count_text,
        "bytes": format_bytes,
        "took": duration_text,
        "mood": call_severity,
    }
    filters |= {
        "who": _principal_filter,
        "person": _principal_element,
        "naming": _naming_filter,
        "named": name_element,
        "asker": _requester_filter,
        "request_sentence": _request_sentence,
        "asked_words": approval_state_text,
        "lasting": approval_scope_text,
        "asked_mood": approval_state_severity,
    }
    filters |= {
        "sentence": capitalize_first,
        "texts": multiline_params,
        "next_step": _next_step_filter,
        "action_link": action_link,
    }
    environment.filters.update(filters)
    environment.globals["static"] = static_url
    return environment


@pass_context
def _principal_filter(context: Context, principal: str) -> str:
    return principal_name(principal, context.get(NAMES, {}))


@pass_context
def _naming_filter(context: Context, text: str, principal: str | None) -> Markup:
    """Render a sentence about a principal with its name instead of its id."""
    if not principal:
        return mark_invisible(text)
    # An id that only begins like this one is another's.
    parts = re.split(rf"(?<![\w/.@-]){re.escape(principal)}(?![\w/@-])", text)
    return _principal_element(context, principal).join(mark_invisible(part) for part in parts)


@pass_context
def _next_step_filter(context: Context, error: object, shown_call: str = "") -> Markup:
    return next_step(error, shown_call, context.get(NAMES, {}))


@pass_context
def _principal_element(context: Context, principal: str) -> Markup:
    return name_element(_principal_filter(context, principal), principal)


def name_element(name: str, principal: str | None) -> Markup:
    """Render a name with the principal as its tooltip: two people may be called the same."""
    if not principal:
        return mark_invisible(name)
    return Markup('<span title="{}">{}</span>').format(principal, mark_invisible(name))


@pass_context
def _request_sentence(context: Context, request: Mapping[str, Any]) -> str:
    """Return what a request asks, of a plugin or a person. `me` is who reads it."""
    names, me, preview = context.get(NAMES, {}), context.get("me"), request["preview"]
    called = preview.get("callable", request["kind"])
    if request["kind"] == "consent":
        reader = me.person if me else ""
        return consent_sentence(preview.get("plugin", ""), called, request["for_person"], names, reader)
    return f"{capitalize_first(requester_name(request, names))} wants to run {called}"


@pass_context
def _requester_filter(context: Context, request: Mapping[str, Any]) -> str:
    return requester_name(request, context.get(NAMES, {}))


def time_element(at: str | None) -> Markup:
    """Render a timestamp as relative time, with the exact one as tooltip; `times.js` shows it in the reader's zone."""
    if not at:
        return Markup("")
    return Markup('<time datetime="{}" title="{}" data-time="relative">{}</time>').format(
        at, exact_time(at), relative_time(at)
    )


def clock_element(at: str) -> Markup:
    """Render the time of day of a timestamp."""
    return Markup('<time datetime="{}" title="{}" data-time="clock">{}</time>').format(at, exact_time(at), at[11:19])


def exact_element(at: str) -> Markup:
    """Render a timestamp exactly: in UTC, until `times.js` shows it in the reader's zone."""
    return Markup('<time datetime="{}" title="{}" data-time="exact">{}</time>').format(
        at, exact_time(at), exact_time(at)
    )


def exact_time(timestamp: str) -> str:
    """Describe a time exactly, in UTC."""
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return timestamp
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def relative_time(timestamp: str, now: datetime | None = None) -> str:
    """Describe a time relative to now."""
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return timestamp
    seconds = ((now or datetime.now(UTC)) - time).total_seconds()
    in_future, seconds = seconds < 0, abs(seconds)
    for unit_s, unit in _TIME_UNITS:
        if seconds >= unit_s:
            text = count_text(int(seconds // unit_s), unit)
            break
    else:
        text = "a moment" if seconds < 10 else count_text(int(seconds), "second")
    return f"in {text}" if in_future else f"{text} ago"


def call_severity(status: str) -> str:
    """Return the severity class of a call status."""
    return _CALL_SEVERITIES.get(status, "bad")


def pretty_json(value: Any) -> Markup:
    """Render a value as indented JSON, with invisible characters marked."""
    return mark_invisible(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def mark_invisible(text: str) -> Markup:
    """Escape a text, with every invisible or text-reversing character written out and marked.

    Approvers must see everything: a zero-width space, a right-to-left override, an escape sequence.
    """
    # Translate instead of looping over characters: a mebibyte would block the event loop for a second.
    invisible = [char for char in set(text) if not (char.isprintable() or char in "\n\t")]
    marks = {
        ord(char): f'<mark class="unseen" title="a character that does not show">U+{ord(char):04X}</mark>'
        for char in invisible
    }
    return Markup(str(escape(text)).translate(marks))  # noqa: S704 - escaped, and the marks are ours


@dataclass(frozen=True, slots=True)
class HtmlFragment:
    """HTML as an unnamed event: htmx swaps those in, and passes named ones to scripts only."""

    html: str

    def encode(self) -> bytes:
        return b"".join(b"data: %s\n" % line.encode() for line in self.html.splitlines()) + b"\n"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """The end of a live stream: `console.js` then keeps the browser from reconnecting."""

    def encode(self) -> bytes:
        return b"event: over\ndata: \n\n"


def render_fragment(template: str, values: Mapping[str, Any]) -> HtmlFragment:
    """Render a template as a fragment."""
    return HtmlFragment(render(template, values))
