"""Whether a chain is what it was: a pure function of its rows and of what was signed outside the database."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, cast

import orjson

from paddock.core.canonical import MAX_SAFE_INTEGER, canonical_bytes
from paddock.core.errors import CallerError
from paddock.ledger.chain.anchors import Anchors
from paddock.ledger.chain.checkpoint import Checkpoint
from paddock.ledger.chain.merkle import MerkleTree
from paddock.ledger.entry import PRINCIPAL_FIELD
from paddock.ledger.entry_hash import GENESIS_HASH, SealedEntry, commit_personal, entry_hash

ChainVerdict = Literal["sound", "tampered", "truncated", "unreadable"]
EXIT_CODES: dict[ChainVerdict, int] = {"sound": 0, "tampered": 1, "truncated": 2, "unreadable": 3}
ERASED_EVENT = "ledger.erased"
_MAX_PLAIN_DIGITS = 16  # of the largest integers that JSON keeps
_UNUSUAL_NUMBER = re.compile(r"[:,\[]-?\d+[.eE]|[:,\[]-?\d{16}")
"""What orjson may write otherwise than the standard: fractions, exponents and large numbers."""


class ChainHead(NamedTuple):
    """Where the database says that a chain ends."""

    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class ChainFinding:
    """What was found. `seq` and `id` are those of the first bad row, where it is one."""

    tenant: str
    verdict: ChainVerdict
    what: str = ""
    seq: int | None = None
    id: str | None = None
    rows: int = 0
    erased: int = 0
    checkpoints: int = 0
    signed_to: int = 0
    keys: tuple[str, ...] = ()
    """Those that signed, in the order of what they signed."""

    @property
    def unsigned(self) -> int:
        """Rows at the end that no checkpoint holds yet."""
        return max(0, self.rows - self.signed_to)

    @property
    def empty(self) -> bool:
        """Whether nothing was ever recorded, as far as anything tells."""
        return self.verdict == "sound" and not self.rows

    def to_json(self) -> dict[str, Any]:
        names = ("tenant", "verdict", "what", "seq", "id", "rows", "erased", "checkpoints", "signed_to", "unsigned")
        return {**{name: getattr(self, name) for name in names}, "keys": list(self.keys)}


class ChainError(Exception):
    """A chain is not what it was."""

    def __init__(
        self, verdict: ChainVerdict, what: str, seq: int | None = None, row: SealedEntry | None = None
    ) -> None:
        super().__init__(what)
        self.verdict: ChainVerdict = verdict
        self.what = what
        self.seq = seq
        self.id = row.id if row else None


@dataclass(slots=True)
class ChainVerifier:
    """A walk along one chain, row by row."""

    tenant: str
    anchors: Anchors
    seq: int = 0
    last: bytes = GENESIS_HASH
    erased: list[int] = field(default_factory=list[int])
    claimed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _next: int = 0
    _open: list[tuple[Checkpoint, MerkleTree]] = field(default_factory=list[tuple[Checkpoint, MerkleTree]])

    def check_row(self, row: SealedEntry) -> None:
        """Look at the next row.

        Raises:
            Wrong: it is not what follows.
        """
        if row.seq != self.seq + 1:
            raise ChainError("tampered", "the row is missing", self.seq + 1)
        try:
            right = entry_hash(self.last, self.tenant, row.seq, row, row.facts.encode()) == row.hash
        except (TypeError, ValueError):  # a text that is none
            right = False
        if not right:
            raise ChainError("tampered", "the row is not what its hash says", row.seq, row)
        facts = _canonical_object(row.facts)
        if facts is None:
            raise ChainError("tampered", "the row's facts are no object in canonical JSON", row.seq, row)
        wrong = _personal_problem(row)
        if wrong:
            raise ChainError("tampered", wrong, row.seq, row)
        if row.type == ERASED_EVENT:
            claimed = _erased_ranges(facts, row.seq)
            if claimed is None:
                raise ChainError("tampered", "the row tells of an erasing that cannot have been", row.seq, row)
            self.claimed += claimed
        self.seq, self.last = row.seq, row.hash
        if row.erased:
            self.erased.append(row.seq)
        self._check_checkpoints(row.hash)

    def _check_checkpoints(self, leaf: bytes) -> None:
        """Compare with the checkpoints that are over this row."""
        points = self.anchors.checkpoints
        while self._next < len(points) and points[self._next].from_seq <= self.seq:
            self._open.append((points[self._next], MerkleTree()))
            self._next += 1
        if not self._open:
            return
        for point, tree in self._open:
            tree.add(leaf)
            if point.to_seq == self.seq and (tree.root().hex(), leaf.hex()) != (point.root, point.head):
                what = f"rows {point.from_seq:,} to {point.to_seq:,} are not those that were signed at {point.at}"
                raise ChainError("tampered", what, point.from_seq)
        self._open = [(point, tree) for point, tree in self._open if point.to_seq > self.seq]

    def check_head(self, head: ChainHead | None) -> None:
        """Look at where the chain ends.

        Raises:
            Wrong: it does not end where it should, or something was erased and nobody said so.
        """
        far = max(self.anchors.checkpoints, key=lambda point: point.to_seq, default=None)
        if far is not None and far.to_seq > self.seq:
            what = f"rows up to {far.to_seq:,} were signed at {far.at}, and the last one here is {self.seq:,}"
            raise ChainError("truncated", what, self.seq + 1)
        if head is not None and head.seq > self.seq:
            what = f"there were {head.seq:,} rows, and the last one here is {self.seq:,}"
            raise ChainError("truncated", what, self.seq + 1)
        if (ChainHead(self.seq, self.last) if self.seq else head) != head:
            raise ChainError("tampered", "the chain does not end where its head says", self.seq)
        unclaimed = _first_outside(self.erased, self.claimed)
        if unclaimed is not None:
            raise ChainError("tampered", f"the row was erased, and no {ERASED_EVENT} tells of it", unclaimed)
        if self.anchors.wrong is not None:
            raise ChainError(*self.anchors.wrong)

    def finding(self, wrong: ChainError | None) -> ChainFinding:
        """The result of the walk."""
        points = self.anchors.checkpoints
        return ChainFinding(
            self.tenant,
            wrong.verdict if wrong else "sound",
            wrong.what if wrong else "",
            wrong.seq if wrong else None,
            wrong.id if wrong else None,
            rows=self.seq,
            erased=len(self.erased),
            checkpoints=len(points),
            signed_to=max((point.to_seq for point in points), default=0),
            keys=tuple(dict.fromkeys(point.key_id for point in points)),
        )


def verify_chain(tenant: str, rows: Iterable[SealedEntry], anchors: Anchors, head: ChainHead | None) -> ChainFinding:
    """What a whole chain is worth, given its rows in order."""
    walk = ChainVerifier(tenant, anchors)
    try:
        for row in rows:
            walk.check_row(row)
        walk.check_head(head)
    except ChainError as wrong:
        return walk.finding(wrong)
    return walk.finding(None)


def _personal_problem(row: SealedEntry) -> str:
    if row.personal is None:
        if row.salt is not None or row.principal is not None:
            return "the row was half erased"
        return ""
    if row.salt is None or row.commitment is None or commit_personal(row.salt, row.personal.encode()) != row.commitment:
        return "what the row says of a person is not what was recorded"
    personal = _canonical_object(row.personal)
    if personal is None:
        return "what the row says of a person is no object in canonical JSON"
    if personal.get(PRINCIPAL_FIELD) != row.principal:
        return "the row is filed under another principal than it tells of"
    return ""


def _canonical_object(text: str) -> dict[str, Any] | None:
    """The object that a column holds; None where it holds none, or it is not in its canonical form."""
    try:
        if text.isascii() and _UNUSUAL_NUMBER.search(text) is None:  # as nearly all are; a third of the time
            found = orjson.loads(text)
            written = orjson.dumps(found, option=orjson.OPT_SORT_KEYS)
        else:
            found = json.loads(text, parse_int=_parse_number)
            written = canonical_bytes(found)
    except (TypeError, ValueError, RecursionError, CallerError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) and written == text.encode() else None


def _parse_number(digits: str) -> int | float:
    """A number without a fraction; beyond 2^53 it is how the standard writes a float."""
    return int(digits) if len(digits) < _MAX_PLAIN_DIGITS or abs(int(digits)) <= MAX_SAFE_INTEGER else float(digits)


def _erased_ranges(facts: dict[str, Any], seq: int) -> list[tuple[int, int]] | None:
    """The rows that an entry says were erased; None where it cannot be right, for only rows before it can be meant."""
    rows = facts.get("rows")
    claimed: list[tuple[int, int]] = []
    for one in cast("list[Any]", rows) if isinstance(rows, list) else [None]:
        match one:
            case [int(first), int(last)] if type(first) is type(last) is int and 0 < first <= last < seq:
                claimed.append((first, last))
            case _:
                return None
    return claimed if sum(last - first + 1 for first, last in claimed) == facts.get("entries") else None


def _first_outside(numbers: Sequence[int], ranges: Iterable[tuple[int, int]]) -> int | None:
    """The first of these ascending numbers that no range holds."""
    left = sorted(ranges)
    reach, place = 0, 0
    for number in numbers:
        while place < len(left) and left[place][0] <= number:
            reach = max(reach, left[place][1])
            place += 1
        if number > reach:
            return number
    return None
