"""The form that a secret's value is given in: typed unseen, pasted with its lines, or as a file. Pure.

A value goes in and never comes out: a form with mistakes comes back without it.
"""

from __future__ import annotations

from paddock.core.errors import OperatorError, Problem
from paddock.core.secret import Secret
from paddock.core.secret_name import ALLOWED, possible
from paddock.http.console.form_body import Sent
from paddock.secrets.rows import checked_value

_AGAIN = "Give the value again: it is never kept in a page."


def named_secret(sent: Sent) -> tuple[str, list[Problem]]:
    """The name that was given, and what is wrong with it."""
    name = sent.one("name").strip()
    if not name:
        return name, [Problem("name", "Give it a name.")]
    if not possible(name):
        return name, [Problem("name", f"No secret can be called that. Use {ALLOWED}.")]
    return name, []


def given_value(sent: Sent) -> tuple[Secret | None, list[Problem]]:
    """The one value that was given, and what is wrong with it."""
    file = sent.files.get("file")
    lines = sent.one("lines").replace("\r\n", "\n").removesuffix("\n")  # as browsers end lines
    try:
        held = file.content.decode().removesuffix("\n") if file is not None and file.content else ""
    except UnicodeDecodeError:
        return None, [Problem("file", "This file is not text.")]
    given = [(place, text) for place, text in (("value", sent.one("value")), ("lines", lines), ("file", held)) if text]
    if len(given) > 1:
        return None, [Problem(place, "Give the value in one place only.") for place, _ in given]
    place, text = given[0] if given else ("value", "")
    try:
        return Secret(checked_value(text, "")), []
    except OperatorError as error:
        message = "Give a value." if error.error_code == "config.no_value" else f"{error.message.capitalize()}."
        return None, [Problem(place, message)]


def mistakes_of(problems: list[Problem]) -> dict[str, list[str]]:
    """By field; where the value was right it has to be given again all the same."""
    found: dict[str, list[str]] = {}
    for one in problems:
        found.setdefault(one.path, []).append(one.message)
    if found and not found.keys() & {"value", "lines", "file"}:
        found["value"] = [_AGAIN]
    return found
