"""Secret values that must not appear in a log, a traceback, a record or a pickle; and the names of secrets."""

from __future__ import annotations

import hmac
import re
from typing import NoReturn, final

_HIDDEN = "Secret(…)"


@final
class Secret:
    """Text that only `reveal()` shows.

    Printing, formatting or encoding it by accident gives a placeholder or an error. It has no useful hash and
    compares in constant time.
    """

    __slots__ = ("__value",)
    __hash__ = None  # type: ignore[assignment]  # a hash would tell equal secrets apart from others

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """The value itself. Review every call of this."""
        return self.__value

    def __repr__(self) -> str:
        return _HIDDEN

    def __str__(self) -> str:
        return _HIDDEN

    def __format__(self, spec: str) -> str:
        return _HIDDEN

    def __bool__(self) -> bool:
        return bool(self.__value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        # surrogatepass: a value read from a file name or environment must not make a comparison raise
        own_bytes, other_bytes = (text.encode("utf-8", "surrogatepass") for text in (self.__value, other.__value))
        return hmac.compare_digest(own_bytes, other_bytes)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not written out; reveal() it where it is needed")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self


MAX_SECRET_NAME_CHARS = 128
# Names come from untrusted manifests and appear in commands that people are told to type: no character that is special
# to a shell is allowed, and no name looks like an option.
_NAME_CHARS = r"A-Za-z0-9_.:/@+%~-"
SECRET_NAME_PATTERN = rf"[A-Za-z0-9_][{_NAME_CHARS}]{{0,{MAX_SECRET_NAME_CHARS - 1}}}"
SECRET_NAME_RULE = (
    f"up to {MAX_SECRET_NAME_CHARS} letters, digits and . _ - : / @ + % ~, the first of them a letter, a digit or _"
)

_NAME = re.compile(SECRET_NAME_PATTERN)
_INVALID_CHAR = re.compile(rf"[^{_NAME_CHARS}]")
_PLUGIN_PREFIX = "plugin/"


def is_valid_secret_name(name: str) -> bool:
    """Whether a secret can have this name."""
    return _NAME.fullmatch(name) is not None


def sanitize_secret_name(name: str) -> str:
    """Replace each character that no name may have."""
    return _INVALID_CHAR.sub("_", name)


def config_secret_prefix(plugin: str) -> str:
    """The name prefix of the secrets in a plugin's configuration."""
    return f"{_PLUGIN_PREFIX}{plugin}/"


def is_config_secret(name: str) -> bool:
    """Whether the name is of a plugin's configuration: the plugin gets it there, and cannot request it by name."""
    return name.startswith(_PLUGIN_PREFIX)
