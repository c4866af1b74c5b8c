"""The building blocks of entry texts: a label per entry type, and a sentence per entry. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeAlias, cast

from paddock.core.printable import count_text
from paddock.principals.caller_text import caller_text

UNKNOWN_PERSON: Final = "an unknown person"  # erased, or never known
_PERSON_FIELDS: Final = frozenset(
    """
    by principal operator operator_id user_id accepted_by answered_by given_by revoked_by requester person owner holder
    approved_by
    """.split()  # noqa: SIM905 - a table of words
)
_MAX_VALUE_CHARS: Final = 300
_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
_INNER_QUOTES: Final = str.maketrans("“”", "‘’")
_SIZE_UNITS: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


class EntryValues(Mapping[str, str]):
    """The fields of an entry for use in sentences: every name yields text, also for unknown values.

    Args:
        fields: The fields of the entry.
        names: What people and API keys are called, by principal; a sentence has the principal and its name.
        short_names: Whether a sentence has the name alone, `Ann’s assistant`, without the principal.
    """

    def __init__(
        self, fields: Mapping[str, Any], names: Mapping[str, str] = _NO_NAMES, *, short_names: bool = False
    ) -> None:
        self.fields = fields
        self._names = names
        self._short_names = short_names

    def __getitem__(self, name: str) -> str:
        """Return the text of a field. `who` is the actor, and `what` is the callable.

        `field~took`, `field~size` and `field~minute` format it as a duration, size or time; `field~thing` counts
        things.
        """
        if name in ("who", "what"):
            return self.who if name == "who" else self.what
        field, _, read_as = name.partition("~")
        if read_as == "minute":
            return str(self.fields.get(field) or "some time")[:16].replace("T", " ")
        if read_as:
            number = self.number(field)
            return _FORMATTERS[read_as](number) if read_as in _FORMATTERS else count_text(int(number), read_as)
        if field not in _PERSON_FIELDS:
            return value_text(self.fields.get(field), "something")
        value = self.fields.get(field)
        principals = [
            one for one in cast("Iterable[Any]", value if isinstance(value, (list, tuple)) else (value,)) if one
        ]
        if self._short_names and principals and all(isinstance(one, str) for one in principals):
            owner = self.fields.get("owner") if field == "principal" else None
            owner_name = owner if isinstance(owner, str) else None
            return truncate_text(", ".join(caller_text(one, owner_name, self._names) for one in principals))
        return labelled(value_text(value, UNKNOWN_PERSON), self._names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def who(self) -> str:
        """The actor."""
        return self["principal"]

    @property
    def what(self) -> str:
        """The callable, by its full name."""
        name, method = self["name"], self.fields.get("method")
        return name if not method or method == name else f"{name}.{value_text(method, '')}"

    def number(self, name: str) -> float:
        """Return a number; 0 if the field holds none."""
        value = self.fields.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0

    def text_if_present(self, name: str, template: str) -> str:
        """Return the template filled with a field's text; empty if the field is not set."""
        return template.format(self[name]) if self.fields.get(name) not in (None, "", [], ()) else ""


def labelled(principal: str, names: Mapping[str, str]) -> str:
    """Return a principal with its name, if it has one: `user:ann “Ann Lee”`."""
    return f"{principal} “{names[principal].translate(_INNER_QUOTES)}”" if principal in names else principal


SentenceSource: TypeAlias = Callable[[EntryValues], str] | str
"""A function that builds the sentence, or a template with field names in braces."""


class SentenceTemplate(NamedTuple):
    """The label and the sentence of one entry type."""

    label: str
    template: SentenceSource

    def sentence(self, values: EntryValues) -> str:
        """Return the sentence for one entry."""
        return self.template.format_map(values) if isinstance(self.template, str) else self.template(values)


def value_text(value: Any, unknown: str) -> str:
    """Return a value as text for a sentence; bounded, since some values are written by plugins."""
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
    """Shorten a text to what fits into a sentence."""
    return text if len(text) <= _MAX_VALUE_CHARS else text[: _MAX_VALUE_CHARS - 1] + "…"


def duration_text(milliseconds: float) -> str:
    """Return a duration: `12 ms`, `3.4 s`, `5 min 10 s`, `2 h 5 min`."""
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
    """Return an amount of data: `3.4 MB`."""
    for size, unit in _SIZE_UNITS:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return count_text(int(number), "byte")


_FORMATTERS: Final[Mapping[str, Callable[[float], str]]] = {"took": duration_text, "size": size_text}
