"""What may be done with a definition."""

from __future__ import annotations

from enum import StrEnum


class Standing(StrEnum):
    """What may be done with a definition."""

    ACCEPTED = "accepted"  # it is the one that was accepted
    QUARANTINED = "quarantined"  # not used until a person accepts it
    BAD = "bad"  # it cannot be used, whoever accepts it
    GONE = "gone"  # accepted, and not listed any more
