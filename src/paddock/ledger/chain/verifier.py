"""Decides whether a chain is intact, from its rows and its signed checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from msgspec import Struct, field

from paddock.ledger.canonical_text import canonical_object
from paddock.ledger.chain.anchors import Anchors
from paddock.ledger.chain.checkpoint import Checkpoint
from paddock.ledger.chain.merkle import MerkleTree
from paddock.ledger.entry import PRINCIPAL_FIELD
from paddock.ledger.entry_hash import GENESIS_HASH, SealedEntry, commit_personal, entry_hash
from paddock.ledger.stored_row import BLOCK_ROWS, select_listed

ChainVerdict = Literal["sound", "tampered", "truncated", "unreadable"]
EXIT_CODES: dict[ChainVerdict, int] = {"sound": 0, "tampered": 1, "truncated": 2, "unreadable": 3}
ERASED_EVENT = "ledger.erased"


class ChainHead(NamedTuple):
    """The end of a chain as recorded in the database."""

    seq: int
    hash: bytes


class ChainFinding(Struct, frozen=True):
    """The result of a verification. `seq` and `id` are those of the first bad row, if the problem is a row."""

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
    """Ids of the signing keys, in the order of the rows that they signed."""

    @property
    def unsigned(self) -> int:
        """Rows at the end that no checkpoint covers yet."""
        return max(0, self.rows - self.signed_to)

    @property
    def empty(self) -> bool:
        """Whether nothing was ever recorded, as far as can be known."""
        return self.verdict == "sound" and not self.rows

    def to_json(self) -> dict[str, Any]:
        names = ("tenant", "verdict", "what", "seq", "id", "rows", "erased", "checkpoints", "signed_to", "unsigned")
        return {**{name: getattr(self, name) for name in names}, "keys": list(self.keys)}


class ChainError(Exception):
    """A chain is not what was recorded."""

    def __init__(
        self, verdict: ChainVerdict, what: str, seq: int | None = None, row: SealedEntry | None = None
    ) -> None:
        super().__init__(what)
        self.verdict: ChainVerdict = verdict
        self.what = what
        self.seq = seq
        self.id = row.id if row else None


class VerifiedPart(Struct, frozen=True):
    """What was found in rows that follow each other, and are sound if the row before them has the hash `after`."""

    after: bytes
    seq: int
    last: bytes
    erased: list[int]
    claimed: list[tuple[int, int]]
    times: dict[int, tuple[str, str]]


class ChainVerifier(Struct):
    """Verifies one chain row by row."""

    tenant: str
    anchors: Anchors
    seq: int = 0
    last: bytes = GENESIS_HASH
    erased: list[int] = field(default_factory=list[int])
    claimed: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    times: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    """The earliest and the latest time of the rows in each block."""
    _next: int = 0
    _open: list[tuple[Checkpoint, MerkleTree]] = field(default_factory=list[tuple[Checkpoint, MerkleTree]])
    _leaves: list[bytes] = field(default_factory=list[bytes])
    _boundary: int = 0
    """The row after which checkpoints are looked at again."""

    def check_rows(self, rows: Iterable[SealedEntry]) -> None:
        """Check the next rows.

        Raises:
            ChainError: one does not continue the chain. Rows before it are checked.
        """
        tenant, times = self.tenant, self.times
        # Everything that is asked of each row is in this loop, since a ledger may have millions.
        for row in rows:
            seq, at, row_hash, commitment = row.seq, row.at, row.hash, row.commitment
            if seq != self.seq + 1 or seq < 1:
                raise self._sequence_error(row)
            try:
                matches = entry_hash(self.last, tenant, seq, row, row.facts) == row_hash
            except (TypeError, ValueError):  # a string that is not valid Unicode
                matches = False
            if not matches:
                raise ChainError("tampered", "the row is not what its hash says", seq, row)
            problem = _personal_problem(row)
            if problem:
                raise ChainError("tampered", problem, seq, row)
            if not row.facts_checked or row.type == ERASED_EVENT:
                self._check_facts(row)
            if self.seq >= self._boundary:
                self._open_checkpoints(seq)
            self.seq, self.last = seq, row_hash
            if commitment is not None and row.personal is None:
                self.erased.append(seq)
            noted = times.get(seq // BLOCK_ROWS)
            if noted is None or not noted[0] <= at <= noted[1]:
                first_at, last_at = noted or (at, at)
                times[seq // BLOCK_ROWS] = (min(first_at, at), max(last_at, at))
            if self._open:
                self._leaves.append(row_hash)
                if seq == self._boundary:
                    self._check_checkpoints()

    def add_part(self, part: VerifiedPart) -> bool:
        """Take over what was found in the next rows elsewhere; False if they do not continue the chain."""
        if part.after != self.last:
            return False
        self.seq, self.last = part.seq, part.last
        self.erased += part.erased
        self.claimed += part.claimed
        for block, (first_at, last_at) in part.times.items():
            noted = self.times.get(block, (first_at, last_at))
            self.times[block] = (min(first_at, noted[0]), max(last_at, noted[1]))
        # No checkpoint is open: a part ends where one ends. Those over the part were compared there.
        self._next = sum(one.from_seq <= part.seq for one in self.anchors.checkpoints)
        self._boundary = part.seq
        return True

    def _sequence_error(self, row: SealedEntry) -> ChainError:
        if row.seq < 1:
            return ChainError("tampered", "the row was put before the first, where none is ever written", row.seq, row)
        return ChainError("tampered", "the row is missing", self.seq + 1)

    def _check_facts(self, row: SealedEntry) -> None:
        facts = canonical_object(row.facts)
        if facts is None:
            raise ChainError("tampered", "the row's facts are no object in canonical JSON", row.seq, row)
        if row.listed is not None and row.listed != select_listed(row.type, facts):
            raise ChainError("tampered", "the row is listed otherwise than it tells", row.seq, row)
        if row.type == ERASED_EVENT:
            claimed = _erased_ranges(facts, row.seq)
            if claimed is None:
                raise ChainError("tampered", "the row tells of an erasing that cannot have been", row.seq, row)
            self.claimed += claimed

    def _open_checkpoints(self, seq: int) -> None:
        """Begin the trees of checkpoints that cover a row and those after it, and choose the next boundary."""
        checkpoints = self.anchors.checkpoints
        while self._next < len(checkpoints) and checkpoints[self._next].from_seq <= seq:
            self._open.append((checkpoints[self._next], MerkleTree()))
            self._next += 1
        ends = [signed.to_seq for signed, _ in self._open]
        if self._next < len(checkpoints):
            ends.append(checkpoints[self._next].from_seq - 1)
        # Leaves are added many at a time, which is faster, but not all at once, which takes memory.
        self._boundary = min([*ends, seq + MerkleTree.BULK_LEAVES - 1])

    def _check_checkpoints(self) -> None:
        """Compare with the checkpoints that end here."""
        for signed, tree in self._open:
            tree.add(*self._leaves)
            if signed.to_seq == self.seq and (tree.root().hex(), self.last.hex()) != (signed.root, signed.head):
                what = f"rows {signed.from_seq:,} to {signed.to_seq:,} are not those that were signed at {signed.at}"
                raise ChainError("tampered", what, signed.from_seq)
        self._leaves.clear()
        self._open = [(signed, tree) for signed, tree in self._open if signed.to_seq > self.seq]

    def check_times(self, noted: Mapping[int, tuple[str, str]]) -> None:
        """Check the notes of the earliest and the latest time of each block of rows.

        Raises:
            ChainError: a search by time would miss rows.
        """
        for block, (first_at, last_at) in self.times.items():
            noted_first, noted_last = noted.get(block, (last_at, first_at))
            if block not in noted or noted_first > first_at or noted_last < last_at:
                what = "the times noted for the rows from here on are not theirs: a search by time would miss some"
                raise ChainError("tampered", what, max(1, block * BLOCK_ROWS))

    def check_head(self, head: ChainHead | None) -> None:
        """Check where the chain ends.

        Raises:
            ChainError: it does not end where it should, or rows were erased without a record.
        """
        furthest = max(self.anchors.checkpoints, key=lambda point: point.to_seq, default=None)
        if furthest is not None and furthest.to_seq > self.seq:
            what = f"rows up to {furthest.to_seq:,} were signed at {furthest.at}, and the last one here is {self.seq:,}"
            raise ChainError("truncated", what, self.seq + 1)
        if head is not None and head.seq > self.seq:
            what = f"there were {head.seq:,} rows, and the last one here is {self.seq:,}"
            raise ChainError("truncated", what, self.seq + 1)
        if (ChainHead(self.seq, self.last) if self.seq else head) != head:
            raise ChainError("tampered", "the chain does not end where its head says", self.seq)
        unclaimed = _first_outside(self.erased, self.claimed)
        if unclaimed is not None:
            raise ChainError("tampered", f"the row was erased, and no {ERASED_EVENT} tells of it", unclaimed)
        if self.anchors.error is not None:
            raise ChainError(*self.anchors.error)

    def finding(self, error: ChainError | None) -> ChainFinding:
        """Return the result of the verification."""
        checkpoints = self.anchors.checkpoints
        return ChainFinding(
            self.tenant,
            error.verdict if error else "sound",
            error.what if error else "",
            error.seq if error else None,
            error.id if error else None,
            rows=self.seq,
            erased=len(self.erased),
            checkpoints=len(checkpoints),
            signed_to=max((point.to_seq for point in checkpoints), default=0),
            keys=tuple(dict.fromkeys(point.key_id for point in checkpoints)),
        )


def _personal_problem(row: SealedEntry) -> str:
    if row.personal is None:
        if row.salt is not None or row.principal is not None:
            return "the row was half erased"
        return ""
    if row.salt is None or row.commitment is None:
        return "what the row says of a person is not what was recorded"
    if not row.commitment_computed and commit_personal(row.salt, row.personal.encode()) != row.commitment:
        return "what the row says of a person is not what was recorded"
    personal = canonical_object(row.personal)
    if personal is None:
        return "what the row says of a person is no object in canonical JSON"
    if personal.get(PRINCIPAL_FIELD) != row.principal:
        return "the row is filed under another principal than it tells of"
    return ""


def _erased_ranges(facts: dict[str, Any], seq: int) -> list[tuple[int, int]] | None:
    """Return the rows that an entry claims were erased; None if impossible, since only earlier rows can be."""
    rows = facts.get("rows")
    claimed: list[tuple[int, int]] = []
    for pair in cast("list[Any]", rows) if isinstance(rows, list) else [None]:
        match pair:
            case [int(first), int(last)] if type(first) is type(last) is int and 0 < first <= last < seq:
                claimed.append((first, last))
            case _:
                return None
    return claimed if sum(last - first + 1 for first, last in claimed) == facts.get("entries") else None


def _first_outside(numbers: Sequence[int], ranges: Iterable[tuple[int, int]]) -> int | None:
    """Return the first of these ascending numbers that is in no range."""
    remaining = sorted(ranges)
    covered_to, position = 0, 0
    for number in numbers:
        while position < len(remaining) and remaining[position][0] <= number:
            covered_to = max(covered_to, remaining[position][1])
            position += 1
        if number > covered_to:
            return number
    return None
