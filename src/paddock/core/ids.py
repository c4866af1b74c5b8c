"""The types of identifiers, and the generator of new ones."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import NewType

from paddock.core.clock import Clock, Random
from paddock.core.errors import HostError

PluginName = NewType("PluginName", str)
CallableName = NewType("CallableName", str)
Tenant = NewType("Tenant", str)
PrincipalId = NewType("PrincipalId", str)
OperatorId = NewType("OperatorId", str)
ProjectId = NewType("ProjectId", str)
AgentPath = NewType("AgentPath", str)
SessionId = NewType("SessionId", str)
RequestId = NewType("RequestId", str)
WorkflowId = NewType("WorkflowId", str)
StepId = NewType("StepId", str)
CallId = NewType("CallId", str)
EventId = NewType("EventId", str)
ErrorId = NewType("ErrorId", str)
Digest = NewType("Digest", str)
KeyId = NewType("KeyId", str)

DEFAULT_TENANT = Tenant("default")

# Crockford's alphabet: no i, l, o, u, and in ASCII order, so that ids sort as their numbers do.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_DIGITS = 16  # digits; the time has ten
_COUNTER_DIGITS = 4  # of them, those that number ids created together
# Ids are made for every call and every event: five bits of each random byte become a digit, all in one step, and the
# time is encoded two digits at a time.
_DIGIT_OF = bytes(ord(_ALPHABET[byte & 31]) for byte in range(256))
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = (40, 30, 20, 10, 0)
_PREFIX = re.compile(r"[a-z]{1,12}\Z")


def new_id(prefix: str, clock: Clock, random: Random) -> str:
    """Create a unique id such as `call_01kd3v…`: 48 bits of milliseconds, then 80 random ones. Sorts by time.

    Args:
        prefix: What it is an id of; lower-case letters.
        clock: Gives the time in it.
        random: Gives the rest.
    """
    random_digits = random.bytes(_RANDOM_DIGITS).translate(_DIGIT_OF).decode("ascii")
    return f"{_checked_prefix(prefix)}{_encode_milliseconds(int(clock.now().timestamp() * 1000))}{random_digits}"


def new_ids(prefix: str, count: int, clock: Clock, random: Random) -> list[str]:
    """Create several ids that sort in this order; a million at most."""
    stem = new_id(prefix, clock, random)[:-_COUNTER_DIGITS]
    return [stem + _PAIRS[index >> 10] + _PAIRS[index & 1023] for index in range(count)]


@cache
def _checked_prefix(prefix: str) -> str:
    if not _PREFIX.match(prefix):
        raise HostError(f"{prefix!r} cannot begin an id", code="id.bad_prefix")
    return f"{prefix}_"


@lru_cache(maxsize=8)  # a busy host makes several in a millisecond
def _encode_milliseconds(milliseconds: int) -> str:
    return "".join([_PAIRS[milliseconds >> shift & 1023] for shift in _SHIFTS])
