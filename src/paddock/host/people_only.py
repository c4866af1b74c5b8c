"""What only people do: a program with a key could make itself somebody who says yes, or bring in what it runs."""

from __future__ import annotations

from paddock.core.call import Principal
from paddock.core.errors import Denied


def require_person(by: Principal) -> Principal:
    """Whoever asks, where they are a person who is signed in, or at the machine of the host.

    Raises:
        Denied: `auth.person_needed`, it is a program with a key.
    """
    if not by.interactive:
        raise Denied(
            f"{by.id} is nobody who is signed in, and only people do this",
            code="auth.person_needed",
            hint="sign in at the console, or use the command line on the machine of the host",
        )
    return by
