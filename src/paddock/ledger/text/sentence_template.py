"""What words are made of: a label for a type of entry, and a sentence for one entry of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

UNKNOWN_PERSON: Final = "somebody"  # they were erased, or it was never known
_PERSON_FIELDS: Final = frozenset(
    """
    by principal operator operator_id user_id accepted_by answered_by given_by revoked_by requester person owner holder
    approved_by
    """.split()  # noqa: SIM905 - a table of words
)
_MAX_VALUE_CHARS: Final = 300
_SIZE_UNITS: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


class EntryValues(Mapping[str, str]):
    """What an entry says, as sentences are made of it: every name stands for words, also where nothing is known."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.fields = said

    def __getitem__(self, name: str) -> str:
        """The words of a field. `who` and `what` are who did it, and what was called.

        `field~took`, `field~size` and `field~minute` read it as such, and `field~thing` counts things.
        """
        if name in ("who", "what"):
            return self.who if name == "who" else self.what
        field, _, read_as = name.partition("~")
        if read_as == "minute":
            return str(self.fields.get(field) or "some time")[:16].replace("T", " ")
        if read_as:
            number = self.number(field)
            return _FORMATTERS[read_as](number) if read_as in _FORMATTERS else count_text(number, read_as)
        return value_text(self.fields.get(field), UNKNOWN_PERSON if field in _PERSON_FIELDS else "something")

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def who(self) -> str:
        """Who did it."""
        return self["principal"]

    @property
    def what(self) -> str:
        """What was called, by its full name."""
        name, method = self["name"], self.fields.get("method")
        return name if not method or method == name else f"{name}.{value_text(method, '')}"

    def number(self, name: str) -> float:
        """A number; 0 where there is none."""
        value = self.fields.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0

    def text_if_present(self, name: str, words: str) -> str:
        """Some words with a value in them, where there is one; nothing otherwise."""
        return words.format(self[name]) if self.fields.get(name) not in (None, "", [], ()) else ""


SentenceSource: TypeAlias = Callable[[EntryValues], str] | str
"""Makes the sentence; a text has the names of fields in braces."""


class SentenceTemplate(NamedTuple):
    """How one type of entry is told."""

    label: str
    template: SentenceSource

    def sentence(self, told: EntryValues) -> str:
        """The sentence for one entry."""
        return self.template.format_map(told) if isinstance(self.template, str) else self.template(told)


def value_text(value: Any, unknown: str) -> str:
    """A value in a sentence; bounded, for some are a plugin's own words."""
    if value is None or value == "":
        return unknown
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return (
            truncate_text(", ".join(value_text(one, "something") for one in cast("Iterable[Any]", value))) or "nothing"
        )
    return truncate_text(str(value))


def truncate_text(text: str) -> str:
    """No more of a text than a sentence bears."""
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…"


def count_text(number: float, word: str) -> str:
    """`3 tools`, `1 tool`."""
    return f"{number:,g} {word}{'' if number == 1 else 's'}"


def duration_text(milliseconds: float) -> str:
    """How long something took: `12 ms`, `3.4 s`, `5 min 10 s`, `2 h 5 min`."""
    if milliseconds < 1_000:
        return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min"


def size_text(number: float) -> str:
    """How much data: `3.4 MB`."""
    for size, unit in _SIZE_UNITS:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return count_text(number, "byte")


_FORMATTERS: Final[Mapping[str, Callable[[float], str]]] = {"took": duration_text, "size": size_text}
