"""The keys that callers give to what is to happen once. Pure."""

from __future__ import annotations

from paddock.core.errors import Invalid, Problem

LONGEST = 255
_OWN = "call_"  # a call without a key stands for itself, by its id


def checked_key(text: str) -> str:
    """The key, if it is one.

    Raises:
        Invalid: it is none.
    """
    if not text or len(text) > LONGEST or not text.isascii() or not text.isprintable():
        wrong, hint = f"is not 1 to {LONGEST} printable characters of ASCII", "a UUID is a good one"
    elif text.startswith(_OWN):
        wrong, hint = f"begins with {_OWN}, as the ids of calls do", "begin it with something else"
    else:
        return text
    raise Invalid(
        "the idempotency key is not valid",
        [Problem("idempotency_key", wrong, hint, "wrong_value")],
        code="invalid_params",
    )
