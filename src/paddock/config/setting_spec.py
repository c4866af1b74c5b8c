"""The specification of one setting: name, type, default, limits, and who may change it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

T = TypeVar("T")


class SettingKind(StrEnum):
    """The type of a setting's value."""

    BOOLEAN = "boolean"
    INTEGER = "integer"
    NUMBER = "number"
    TEXT = "text"
    NAMES = "list of names"
    WORDS = "list of words"  # kept as written, where names are lower-cased


class Tightening(StrEnum):
    """In which direction a project may change a value; everything else in a project file is refused."""

    NEVER = "never"
    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, slots=True)
class SettingSpec:
    """One row of the table of settings."""

    name: str
    kind: SettingKind
    default: Any
    description: str
    variables: tuple[str, ...]
    parameters: tuple[str, ...]
    minimum: float | None
    maximum: float | None
    choices: tuple[str, ...]
    fixed: bool
    tighter: Tightening
    sensitive: bool
    reserved: str
    check: Callable[[Any], str | None] | None

    @property
    def environment(self) -> str:
        """The name of its environment variable."""
        return "PADDOCK_" + self.name.upper().replace(".", "_")

    @property
    def optional(self) -> bool:
        """Whether it may be unset."""
        return self.default is None


def setting(
    default: T,
    description: str,
    *,
    kind: SettingKind,
    variables: tuple[str, ...] = (),
    parameters: tuple[str, ...] = (),
    minimum: float | None = None,
    maximum: float | None = None,
    choices: tuple[str, ...] = (),
    fixed: bool = False,
    tighter: Tightening = Tightening.NEVER,
    sensitive: bool = False,
    reserved: str = "",
    check: Callable[[Any], str | None] | None = None,
) -> T:
    """Declare one setting as a dataclass field.

    `variables` and `parameters` are the names OSQR gives it (environment, file key). `fixed` means that its default
    is the only value we accept, because any other would loosen the cage. `sensitive` values stay out of `repr`.
    `reserved` names the feature that will read the setting; until that exists, setting it is an error.
    """
    spec = SettingSpec(
        "",
        kind,
        default,
        description,
        variables,
        parameters,
        minimum,
        maximum,
        choices,
        fixed,
        tighter,
        sensitive,
        reserved,
        check,
    )
    return field(default=default, repr=not sensitive, metadata={"row": spec})
