"""A value that must not be seen: in a log, a traceback, a record or a pickle."""

from __future__ import annotations

import hmac
from typing import NoReturn, final

_HIDDEN = "Secret(…)"


@final
class Secret:
    """Text that shows itself only to `reveal()`.

    Whatever prints, formats or encodes it by accident gets a placeholder or an error. It has no useful hash and
    compares in constant time.
    """

    __slots__ = ("__value",)
    __hash__ = None  # type: ignore[assignment]  # a hash would tell equal secrets apart from others

    def __init__(self, value: str) -> None:
        self.__value = value

    def reveal(self) -> str:
        """The value itself. Every call of this is a place to look at in review."""
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
        mine, theirs = (text.encode("utf-8", "surrogatepass") for text in (self.__value, other.__value))
        return hmac.compare_digest(mine, theirs)

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret is not written out; reveal() it where it is needed")

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: object) -> Secret:
        return self
