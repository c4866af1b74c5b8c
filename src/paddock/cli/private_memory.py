"""A process that holds keys: what is in its memory gets to nobody else, as far as the kernel lets us say so."""

from __future__ import annotations

import ctypes
import resource
from contextlib import suppress

_SET_DUMPABLE = 4  # of prctl


def keep_memory_private() -> None:
    """Have no core dump made of this process, and no other process of the same person read its memory.

    What it starts is a program of its own, of which the second does not hold.
    """
    # 0 forbids a file only: where the kernel hands the dump to a program, that is started all the same. 1 forbids both.
    with suppress(ValueError, OSError):  # less is allowed already
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
