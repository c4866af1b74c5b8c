"""The operator's own look at its payload: the host has checked it too, and an operator trusts nobody."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

LENGTHS = ("short", "medium")
TONES = ("formal", "friendly")


class Draft(NamedTuple):
    """What to write, checked."""

    student: str
    field: str
    highlights: tuple[str, ...]
    professor: str
    topic: str | None
    length: str
    tone: str


class Mistakes(Exception):
    """Everything wrong with a payload, each with its path."""

    def __init__(self, found: list[dict[str, str]]) -> None:
        super().__init__(f"the payload has {len(found)} mistake(s)")
        self.found = found


def read(payload: Any) -> Draft:
    """The payload as a value.

    Raises:
        Mistakes: it does not fit the schema.
    """
    found: list[dict[str, str]] = []
    whole = _object(payload, "payload", ("student", "professor", "length", "tone"), found)
    student = _object(whole.get("student"), "student", ("name", "field", "highlights"), found)
    professor = _object(whole.get("professor"), "professor", ("name", "topic"), found)
    draft = Draft(
        _text(student.get("name"), "student.name", 200, found),
        _text(student.get("field"), "student.field", 200, found),
        _texts(student.get("highlights", []), "student.highlights", found),
        _text(professor.get("name"), "professor.name", 200, found),
        _text(professor["topic"], "professor.topic", 200, found) if "topic" in professor else None,
        _choice(whole.get("length", "short"), "length", LENGTHS, found),
        _choice(whole.get("tone", "formal"), "tone", TONES, found),
    )
    if found:
        raise Mistakes(found)
    return draft


def _object(value: Any, path: str, known: tuple[str, ...], found: list[dict[str, str]]) -> dict[str, Any]:
    if not isinstance(value, dict):
        found.append({"path": path, "message": "must be an object"})
        return {}
    fields = cast("dict[str, Any]", value)
    found.extend({"path": f"{path}.{key}", "message": "is not known"} for key in fields if key not in known)
    return fields


def _text(value: Any, path: str, longest: int, found: list[dict[str, str]]) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= longest:
        found.append({"path": path, "message": f"must be text of 1 to {longest} characters"})
        return ""
    return value


def _texts(value: Any, path: str, found: list[dict[str, str]]) -> tuple[str, ...]:
    if not isinstance(value, list) or len(cast("list[Any]", value)) > 10:
        found.append({"path": path, "message": "must be a list of at most 10 texts"})
        return ()
    return tuple(_text(item, f"{path}[{index}]", 500, found) for index, item in enumerate(cast("list[Any]", value)))


def _choice(value: Any, path: str, choices: tuple[str, ...], found: list[dict[str, str]]) -> str:
    if value not in choices:
        found.append({"path": path, "message": f"must be one of {', '.join(choices)}"})
    return str(value)
