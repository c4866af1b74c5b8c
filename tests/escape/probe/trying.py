"""How an attempt to get out of a cage is written, tried and told. Runs inside the cage; standard library only.

An attempt is a function that does its worst. What it returns is what it got, and then it got out; where a wall stands
it ends in an OSError, or has nothing to return. Each is tried in a process of its own, so that one that is killed, or
changes its process for good, takes no other with it. All are bounded and harmless: they are also tried with walls
taken away.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Facts = dict[str, Any]  # what the host tells a plugin that wants out: where to look, whom to hit
Attempt = Callable[[Facts], "str | None"]

SECONDS = 20
libc = ctypes.CDLL(None, use_errno=True)


class Room:
    """The attempts of one file, by the sentence that says what each tries."""

    def __init__(self) -> None:
        self.attempts: dict[str, Attempt] = {}

    def attempt(self, sentence: str) -> Callable[[Attempt], Attempt]:
        def keep(function: Attempt) -> Attempt:
            assert sentence not in self.attempts, sentence
            self.attempts[sentence] = function
            return function

        return keep


def call(number: int, *arguments: object) -> int:
    """A system call by its number.

    Raises:
        OSError: as the kernel says.
    """
    words = [ctypes.c_long(word) if isinstance(word, int) else word for word in (*arguments, 0, 0, 0, 0, 0, 0)[:6]]
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        refuse(ctypes.get_errno())
    return result


def checked(result: int) -> int:
    """What a function of the C library gave, or its error as OSError."""
    if result < 0:
        refuse(ctypes.get_errno())
    return result


def refuse(number: int) -> None:
    raise OSError(number, os.strerror(number))


def try_all(attempts: dict[str, Attempt], wanted: Iterable[str], facts: Facts) -> Iterator[str]:
    """One line of JSON for each attempt that is wanted."""
    for sentence in wanted:
        out, told = _tried(attempts[sentence], facts)
        yield json.dumps({"attempt": sentence, "out": out, "told": told})


def _tried(function: Attempt, facts: Facts) -> tuple[bool, str]:
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(ours)
            os.write(theirs, json.dumps(_outcome(function, facts)).encode())
        finally:
            os._exit(0)
    os.close(theirs)
    said, deadline = b"", time.monotonic() + SECONDS
    while select.select([ours], [], [], max(0.0, deadline - time.monotonic()))[0]:
        part = os.read(ours, 65536)
        if not part:
            break
        said += part
    os.close(ours)
    # Whatever it left: itself and its children, which are in no cage of their own.
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if said:
        out, told = json.loads(said)
        return out, told
    return False, f"ended by signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else "no answer"


def _outcome(function: Attempt, facts: Facts) -> tuple[bool, str]:
    try:
        got = function(facts)
    except OSError as error:
        return False, errno.errorcode.get(error.errno or 0, repr(error))
    except MemoryError:
        return False, "no memory"
    except Exception as error:
        # A mistake of the attempt must not look like a wall.
        return True, f"the attempt itself is broken: {error!r}"
    return (False, "nothing") if got is None else (True, got[:500])
