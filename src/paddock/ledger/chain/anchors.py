"""The anchors of a chain: which checkpoints can be trusted, and what is wrong with the others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from msgspec import Struct

from paddock.ledger.chain.checkpoint import NO_PREVIOUS, Checkpoint, is_signed_by, parse_checkpoint
from paddock.ledger.chain.signing_key import key_id


class RecordedCheckpoint(NamedTuple):
    """The last checkpoint that a key signed, as recorded in the database."""

    key_id: str
    to_seq: int


class AnchorError(NamedTuple):
    """A problem with the checkpoints."""

    verdict: Literal["tampered", "truncated", "unreadable"]
    what: str
    seq: int | None = None


class Anchors(Struct, frozen=True):
    """Trusted checkpoints, in the order of their rows, and the first problem found."""

    checkpoints: tuple[Checkpoint, ...] = ()
    error: AnchorError | None = None


def build_anchors(
    tenant: str,
    own: Sequence[bytes],
    others: Mapping[str, Sequence[bytes]],
    keys: Sequence[bytes],
    recorded: Iterable[RecordedCheckpoint] = (),
) -> Anchors:
    """Collect the trusted checkpoints of a chain.

    Args:
        tenant: The owner of the chain.
        own: The lines of this home's checkpoint file, which must be complete.
        others: Lines of copies kept elsewhere, by file name. A copy may be partial: its last line alone covers all rows
            that were signed by it.
        keys: The public keys whose signatures count.
        recorded: The checkpoints that must be among them.
    """
    trusted: dict[str, Checkpoint] = {}
    error: AnchorError | None = None
    before: Checkpoint | None = None
    replaced: set[str] = set()
    for number, line in enumerate(own, 1):
        result = _trusted_checkpoint(line, tenant, keys)
        if before is not None and not isinstance(result, str) and result.key_id != before.key_id:
            replaced.add(before.key_id)
        if isinstance(result, str) or not _follows(result, before) or result.key_id in replaced:
            reason = result if isinstance(result, str) else "does not follow the line before"
            seq = before.to_seq + 1 if before else 1
            error = AnchorError("tampered", f"line {number} of the checkpoints {reason}", seq)
            break
        trusted[result.digest()] = before = result
    for name, lines in others.items():
        for number, line in enumerate(lines, 1):
            result = _trusted_checkpoint(line, tenant, keys)
            if isinstance(result, str):
                error = error or AnchorError("tampered", f"line {number} of {name} {result}")
                break
            trusted[result.digest()] = result
    checkpoints = tuple(sorted(trusted.values(), key=lambda checkpoint: (checkpoint.from_seq, checkpoint.to_seq)))
    for key, to_seq in recorded:
        signed_to = max((checkpoint.to_seq for checkpoint in checkpoints if checkpoint.key_id == key), default=0)
        if signed_to < to_seq:
            what = f"checkpoints are gone: there were some up to row {to_seq:,}, and those here end at {signed_to:,}"
            error = error or AnchorError("truncated", what, signed_to + 1)
    return Anchors(checkpoints, error)


def _trusted_checkpoint(line: bytes, tenant: str, keys: Sequence[bytes]) -> Checkpoint | str:
    """Return the checkpoint of a line, or what is wrong with it."""
    checkpoint = parse_checkpoint(line)
    if checkpoint is None:
        return "is no checkpoint"
    if checkpoint.tenant != tenant:
        return "is about another tenant"
    if checkpoint.key_id not in {key_id(key) for key in keys}:
        return f"is signed with another key ({checkpoint.key_id})"
    if not is_signed_by(checkpoint, keys):
        return "has a false signature"
    return checkpoint


def _follows(checkpoint: Checkpoint, before: Checkpoint | None) -> bool:
    previous, first = (before.digest(), before.to_seq + 1) if before else (NO_PREVIOUS, 1)
    return checkpoint.previous == previous and checkpoint.from_seq == first and checkpoint.to_seq >= first
