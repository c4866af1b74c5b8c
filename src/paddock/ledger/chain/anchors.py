"""What holds a chain in place: the checkpoints that can be believed, and what is wrong with the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from paddock.ledger.chain.checkpoint import NO_PREVIOUS, Checkpoint, is_signed_by, parse_checkpoint
from paddock.ledger.chain.signing_key import key_id


class RecordedCheckpoint(NamedTuple):
    """The last checkpoint that a key signed, as the database remembers it."""

    key_id: str
    to_seq: int


class AnchorError(NamedTuple):
    """What is wrong with the checkpoints."""

    verdict: Literal["tampered", "truncated", "unreadable"]
    what: str
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Anchors:
    """Checkpoints in the order of the rows that they are over."""

    checkpoints: tuple[Checkpoint, ...] = ()
    wrong: AnchorError | None = None


def build_anchors(
    tenant: str,
    own: Sequence[bytes],
    others: Mapping[str, Sequence[bytes]],
    keys: Sequence[bytes],
    noted: Iterable[RecordedCheckpoint] = (),
) -> Anchors:
    """What to hold against a chain.

    Args:
        tenant: Whose chain it is.
        own: The lines of this home's file, which has to be whole.
        others: Lines that were kept elsewhere, by the name of their file. They may be a part: the last line alone holds
            all that was signed by it.
        keys: The public keys whose signatures count.
        noted: What has to be among them.
    """
    good: dict[str, Checkpoint] = {}
    wrong: AnchorError | None = None
    before: Checkpoint | None = None
    replaced: set[str] = set()
    for number, line in enumerate(own, 1):
        read = _trusted_checkpoint(line, tenant, keys)
        if before is not None and not isinstance(read, str) and read.key_id != before.key_id:
            replaced.add(before.key_id)
        if isinstance(read, str) or not _follows(read, before) or read.key_id in replaced:
            reason = read if isinstance(read, str) else "does not follow the line before"
            seq = before.to_seq + 1 if before else 1
            wrong = AnchorError("tampered", f"line {number} of the checkpoints {reason}", seq)
            break
        good[read.digest()] = before = read
    for name, lines in others.items():
        for number, line in enumerate(lines, 1):
            read = _trusted_checkpoint(line, tenant, keys)
            if isinstance(read, str):
                wrong = wrong or AnchorError("tampered", f"line {number} of {name} {read}")
                break
            good[read.digest()] = read
    points = tuple(sorted(good.values(), key=lambda point: (point.from_seq, point.to_seq)))
    for key, to_seq in noted:
        reach = max((point.to_seq for point in points if point.key_id == key), default=0)
        if reach < to_seq:
            what = f"checkpoints are gone: there were some up to row {to_seq:,}, and those here end at {reach:,}"
            wrong = wrong or AnchorError("truncated", what, reach + 1)
    return Anchors(points, wrong)


def _trusted_checkpoint(line: bytes, tenant: str, keys: Sequence[bytes]) -> Checkpoint | str:
    """The checkpoint in a line, or what is wrong with it."""
    read = parse_checkpoint(line)
    if read is None:
        return "is no checkpoint"
    if read.tenant != tenant:
        return "is about another tenant"
    if read.key_id not in {key_id(key) for key in keys}:
        return f"is signed with another key ({read.key_id})"
    if not is_signed_by(read, keys):
        return "has a false signature"
    return read


def _follows(read: Checkpoint, before: Checkpoint | None) -> bool:
    previous, first = (before.digest(), before.to_seq + 1) if before else (NO_PREVIOUS, 1)
    return read.previous == previous and read.from_seq == first and read.to_seq >= first
