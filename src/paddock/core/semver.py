"""Versions by Semantic Versioning 2.0.0, and the constraints people write about them.

The accepted forms of a constraint mean what they mean to npm: `1.2.3`, `=1.2.3`, `1.x`, `1.2.x`, `*`, `^1.2.3`,
`~1.2.3`, `>=1.2 <2`, `1.2 - 1.4`, joined by spaces or commas (and) or by `||` (or). A pre-release satisfies a
constraint only where one of the constraint's own bounds is a pre-release of the same major.minor.patch.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from functools import total_ordering

from msgspec import Struct

from paddock.core.errors import OperatorError

MAX_VERSION_CHARS = 256
MAX_NUMBER = 2**53 - 1
MAX_ALTERNATIVES = 50
CONSTRAINT_SYNTAX_HINT = "write 1.2.3, 1.x, 1.2.x, *, ^1.2.3, ~1.2.3, >=1.2 <2, or several joined by ||"

_NUMBER = r"0|[1-9][0-9]{0,15}"
_PRE_PART = r"(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_PRE = rf"{_PRE_PART}(?:\.{_PRE_PART})*"
_BUILD = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-({_PRE}))?(?:\+({_BUILD}))?", re.ASCII)
_ANY = rf"{_NUMBER}|[xX*]"
_PARTIAL = re.compile(rf"({_ANY})(?:\.({_ANY})(?:\.({_ANY})(?:-({_PRE}))?(?:\+{_BUILD})?)?)?", re.ASCII)
_OPERATOR = re.compile(r"\s*(>=|<=|>|<|=|\^|~)?\s*([^\s,|<>=^~]+)", re.ASCII)
_SEPARATOR = re.compile(r"\s*,(?=\s*\S)|\s+|$", re.ASCII)
_HYPHEN = re.compile(r"\s*(\S+)\s+-\s+(\S+)\s*", re.ASCII)


@total_ordering
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One version. Build metadata is kept for showing and, as the standard has it, ignored in comparisons."""

    major: int
    minor: int
    patch: int
    pre: tuple[int | str, ...] = ()
    build: str = ""

    @classmethod
    def parse(cls, text: str) -> Version:
        """Parse a full version; nothing is guessed or repaired.

        Raises:
            OperatorError: It is not a semantic version.
        """
        match = _VERSION.fullmatch(text) if len(text) <= MAX_VERSION_CHARS else None
        if not match:
            raise _invalid_version_error(
                text, "a version", "write MAJOR.MINOR.PATCH, for example 1.2.3 or 2.0.0-beta.1"
            )
        major, minor, patch = (_parse_number(part, text) for part in match.group(1, 2, 3))
        return cls(major, minor, patch, _parse_pre_release(match[4], text), match[5] or "")

    @property
    def core(self) -> tuple[int, int, int]:
        """The three numbers, without pre-release and build."""
        return self.major, self.minor, self.patch

    @property
    def precedence(self) -> tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]:
        """A key that sorts as the standard orders versions: numbers before words, a pre-release before its release."""
        parts = tuple((0, part, "") if isinstance(part, int) else (1, 0, part) for part in self.pre)
        return self.core, not self.pre, parts

    def __str__(self) -> str:
        pre = "-" + ".".join(map(str, self.pre)) if self.pre else ""
        return f"{self.major}.{self.minor}.{self.patch}{pre}" + (f"+{self.build}" if self.build else "")

    def __eq__(self, other: object) -> bool:
        return self.precedence == other.precedence if isinstance(other, Version) else NotImplemented

    def __lt__(self, other: Version) -> bool:
        return self.precedence < other.precedence

    def __hash__(self) -> int:
        return hash(self.precedence)


class Bound(Struct, frozen=True):
    """One comparison: `>=`, `>`, `<`, `<=` or `=` a version."""

    operator: str
    version: Version

    def allows(self, version: Version) -> bool:
        match self.operator:
            case ">=":
                return version >= self.version
            case ">":
                return version > self.version
            case "<":
                return version < self.version
            case "<=":
                return version <= self.version
            case _:
                return version == self.version


class Constraint(Struct, frozen=True):
    """A set of versions: any of the alternatives, each being all of its bounds."""

    text: str
    alternatives: tuple[tuple[Bound, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Parse a constraint.

        Raises:
            OperatorError: It is not in one of the accepted forms; the hint lists them.
        """
        pieces = text.split("||")
        if len(text) > MAX_VERSION_CHARS or len(pieces) > MAX_ALTERNATIVES or not text.isprintable():
            raise _invalid_version_error(text, "a version constraint", CONSTRAINT_SYNTAX_HINT)
        return cls(text.strip(), tuple(_parse_alternative(piece, text) for piece in pieces))

    def allows(self, version: Version) -> bool:
        """Whether the version satisfies this constraint."""
        return any(_satisfies(version, bounds) for bounds in self.alternatives)

    def __str__(self) -> str:
        return self.text


def highest_allowed(versions: Iterable[Version], constraint: Constraint) -> Version | None:
    """The greatest of the versions that the constraint allows; None when it allows none."""
    return max((version for version in versions if constraint.allows(version)), default=None)


def _satisfies(version: Version, bounds: tuple[Bound, ...]) -> bool:
    if not all(bound.allows(version) for bound in bounds):
        return False
    if not version.pre:
        return True
    # A pre-release satisfies only a constraint that names a pre-release of the same version.
    return any(bound.version.pre and bound.version.core == version.core for bound in bounds)


# A partial version: the numbers that were given, and its pre-release.
_Partial = tuple[tuple[int, ...], tuple[int | str, ...]]


def _parse_alternative(piece: str, text: str) -> tuple[Bound, ...]:
    if hyphen := _HYPHEN.fullmatch(piece):
        low, high = (_parse_partial(end, text) for end in hyphen.groups())
        return (*_bounds(">=", low), *_bounds("<=", high))
    bounds: tuple[Bound, ...] = ()
    position, found_any = 0, False
    while rest := piece[position:].strip(" \t"):
        match = _OPERATOR.match(piece, position)
        if not match:
            raise _invalid_version_error(text, f"a version constraint (at {rest[:20]!r})", CONSTRAINT_SYNTAX_HINT)
        bounds += _bounds(match[1] or "=", _parse_partial(match[2], text))
        found_any, position = True, match.end()
        separator = _SEPARATOR.match(piece, position)
        if not separator:
            raise _invalid_version_error(
                text, f"a version constraint (at {piece[position:][:20]!r})", CONSTRAINT_SYNTAX_HINT
            )
        position = separator.end()
    if not found_any:
        raise _invalid_version_error(text, "a version constraint", CONSTRAINT_SYNTAX_HINT)
    return bounds


def _parse_partial(word: str, text: str) -> _Partial:
    match = _PARTIAL.fullmatch(word)
    if not match:
        raise _invalid_version_error(text, f"a version constraint (at {word[:40]!r})", CONSTRAINT_SYNTAX_HINT)
    numbers: list[int] = []
    parts = [part for part in match.group(1, 2, 3) if part is not None]
    for index, part in enumerate(parts):
        if part in "xX*":
            # `1.x.3` would be a slip: after a wildcard only wildcards make sense.
            if any(later not in "xX*" for later in parts[index:]) or match[4]:
                raise _invalid_version_error(text, f"a version constraint (at {word[:40]!r})", CONSTRAINT_SYNTAX_HINT)
            break
        numbers.append(_parse_number(part, text))
    return tuple(numbers), _parse_pre_release(match[4], text)


def _bounds(operator: str, partial: _Partial) -> tuple[Bound, ...]:
    """The plain comparisons that an operator with a (possibly partial) version stands for."""
    numbers, pre = partial
    low = _padded_version(numbers, pre)
    if not numbers:  # a lone wildcard
        return (Bound("<", _before(Version(0, 0, 0))),) if operator in "<>" else (Bound(">=", Version(0, 0, 0)),)
    full = len(numbers) == 3
    match operator:
        case "=":
            return (Bound("=", low),) if full else _range(low, _next_version(numbers, len(numbers) - 1))
        case "~":
            return _range(low, _next_version(numbers, min(1, len(numbers) - 1)))
        case "^":
            # The first number that is not zero may not change; where all are zero, the last one given.
            fixed = next((i for i, number in enumerate(numbers) if number), len(numbers) - 1)
            return _range(low, _next_version(numbers, fixed))
        case ">":
            return (Bound(">", low),) if full else (Bound(">=", _next_version(numbers, len(numbers) - 1)),)
        case "<=":
            return (Bound("<=", low),) if full else (Bound("<", _before(_next_version(numbers, len(numbers) - 1))),)
        case "<":
            return (Bound("<", low if full else _before(low)),)
        case _:
            return (Bound(">=", low),)


def _range(low: Version, end: Version) -> tuple[Bound, ...]:
    return Bound(">=", low), Bound("<", _before(end))


def _before(version: Version) -> Version:
    """The lowest version of a release, so that its own pre-releases are outside of a range that ends there."""
    return Version(*version.core, pre=(0,))


def _next_version(numbers: tuple[int, ...], index: int) -> Version:
    return _padded_version((*numbers[:index], numbers[index] + 1), ())


def _padded_version(numbers: tuple[int, ...], pre: tuple[int | str, ...]) -> Version:
    major, minor, patch = (*numbers, 0, 0, 0)[:3]
    return Version(major, minor, patch, pre)


def _parse_pre_release(text: str | None, whole: str) -> tuple[int | str, ...]:
    return tuple(_parse_number(part, whole) if part.isdecimal() else part for part in text.split(".")) if text else ()


def _parse_number(digits: str, whole: str) -> int:
    if len(digits) > 16 or int(digits) > MAX_NUMBER:
        raise _invalid_version_error(whole, "a version", f"numbers in a version go up to {MAX_NUMBER}")
    return int(digits)


def _invalid_version_error(text: str, expected: str, hint: str) -> OperatorError:
    shown = text if len(text) <= 60 else text[:59] + "…"
    return OperatorError(f"{shown!r} is not {expected}", code="version.invalid", hint=hint)
