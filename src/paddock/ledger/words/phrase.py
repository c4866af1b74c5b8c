"""What words are made of: a label for a type of entry, and a sentence for one entry of it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

NOBODY_KNOWN: Final = "somebody"  # they were erased, or it was never known
_PEOPLE: Final = frozenset(
    """
    by principal operator operator_id user_id accepted_by answered_by given_by revoked_by requester person owner holder
    approved_by
    """.split()  # noqa: SIM905 - a table of words
)
_LONGEST: Final = 300
_SIZES: Final = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "kB"))


class Told(Mapping[str, str]):
    """What an entry says, as sentences are made of it: every name stands for words, also where nothing is known."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.said = said

    def __getitem__(self, name: str) -> str:
        """The words of a field. `who` and `what` are who did it, and what was called.

        `field~took`, `field~size` and `field~minute` read it as such, and `field~thing` counts things.
        """
        if name in ("who", "what"):
            return self.who if name == "who" else self.what
        field, _, read_as = name.partition("~")
        if read_as == "minute":
            return str(self.said.get(field) or "some time")[:16].replace("T", " ")
        if read_as:
            number = self.number(field)
            return _READ_AS[read_as](number) if read_as in _READ_AS else counted(number, read_as)
        return in_words(self.said.get(field), NOBODY_KNOWN if field in _PEOPLE else "something")

    def __iter__(self) -> Iterator[str]:
        return iter(self.said)

    def __len__(self) -> int:
        return len(self.said)

    @property
    def who(self) -> str:
        """Who did it."""
        return self["principal"]

    @property
    def what(self) -> str:
        """What was called, by its full name."""
        name, method = self["name"], self.said.get("method")
        return name if not method or method == name else f"{name}.{in_words(method, '')}"

    def number(self, name: str) -> float:
        """A number; 0 where there is none."""
        value = self.said.get(name)
        return value if isinstance(value, (int, float)) and not isinstance(value, bool) else 0

    def when(self, name: str, words: str) -> str:
        """Some words with a value in them, where there is one; nothing otherwise."""
        return words.format(self[name]) if self.said.get(name) not in (None, "", [], ()) else ""


Say: TypeAlias = Callable[[Told], str] | str
"""Makes the sentence; a text has the names of fields in braces."""


class Words(NamedTuple):
    """How one type of entry is told."""

    label: str
    say: Say

    def sentence(self, told: Told) -> str:
        """The sentence for one entry."""
        return self.say.format_map(told) if isinstance(self.say, str) else self.say(told)


def in_words(value: Any, unknown: str) -> str:
    """A value in a sentence; bounded, for some are a plugin's own words."""
    if value is None or value == "":
        return unknown
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return cut(", ".join(in_words(one, "something") for one in cast("Iterable[Any]", value))) or "nothing"
    return cut(str(value))


def cut(text: str) -> str:
    """No more of a text than a sentence bears."""
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def counted(number: float, word: str) -> str:
    """`3 tools`, `1 tool`."""
    return f"{number:,g} {word}{'' if number == 1 else 's'}"


def lasting(milliseconds: float) -> str:
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


def sized(number: float) -> str:
    """How much data: `3.4 MB`."""
    for size, unit in _SIZES:
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return counted(number, "byte")


_READ_AS: Final[Mapping[str, Callable[[float], str]]] = {"took": lasting, "size": sized}
