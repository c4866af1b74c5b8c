"""Receipts of anchors: what was sent where, when, and what came back. One file for each address."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from paddock.core.errors import HostError
from paddock.net.anchor_address import AnchorAddress
from paddock.store.filesystem import replace_private_file

MAX_RECEIPTS = 1_000  # of one address; the oldest are dropped
_FOLDER = "anchors"


class AnchorReceipt(Struct, frozen=True):
    """One successful sending.

    Attributes:
        at: When it was sent.
        lines: The checkpoints that were sent: the last of each chain that had grown.
        proof: What the receiver gave back, by its kind.
    """

    at: str
    lines: tuple[str, ...]
    proof: dict[str, Any]

    @property
    def document(self) -> bytes:
        """The bytes that were sent."""
        return anchor_document(self.lines)


def anchor_document(lines: Sequence[str]) -> bytes:
    """Return the bytes that are sent for these checkpoints: one line each."""
    return b"".join(line.encode() + b"\n" for line in lines)


def document_digest(document: bytes) -> bytes:
    """Return the hash that a time stamp is over."""
    return sha256(document).digest()


def receipts_file(state: Path, address: AnchorAddress) -> Path:
    """Return the file of an address's receipts."""
    return state / "ledger" / _FOLDER / f"{address.id}.jsonl"


def read_receipts(state: Path, address: AnchorAddress) -> list[AnchorReceipt]:
    """Return the receipts of an address, oldest first.

    Raises:
        HostError: `ledger.anchor`, when the file cannot be read.
    """
    file = receipts_file(state, address)
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError(f"the receipts in {file} cannot be read: {error.strerror}", code="ledger.anchor") from error
    # A last line without a line end was never finished.
    return [_parse_receipt(line, file) for line in content.split(b"\n")[:-1]]


def append_receipt(state: Path, address: AnchorAddress, receipt: AnchorReceipt) -> None:
    """Add a receipt, on disk when this returns.

    Raises:
        OSError: it cannot be written.
    """
    file = receipts_file(state, address)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = [*read_receipts(state, address), receipt][-MAX_RECEIPTS:]
    # As a whole: the file is small, and so it can be neither half written nor grow for ever.
    replace_private_file(file, b"".join(_receipt_line(one) for one in kept))


def failure_file(state: Path, address: AnchorAddress) -> Path:
    """Return the file that says why the last sending failed, while it does."""
    return receipts_file(state, address).with_suffix(".failed")


def write_failure(state: Path, address: AnchorAddress, message: str) -> None:
    """Keep why a sending failed, for `doctor`."""
    file = failure_file(state, address)
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    file.write_text(message, encoding="utf-8")


def read_failure(state: Path, address: AnchorAddress) -> str:
    """Return why the last sending failed; empty if it did not."""
    try:
        return failure_file(state, address).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def clear_failure(state: Path, address: AnchorAddress) -> None:
    """Forget an earlier failure."""
    failure_file(state, address).unlink(missing_ok=True)


def _receipt_line(receipt: AnchorReceipt) -> bytes:
    record = {"v": 1, "at": receipt.at, "lines": list(receipt.lines), "proof": receipt.proof}
    return json.dumps(record, sort_keys=True).encode() + b"\n"


def _parse_receipt(line: bytes, file: Path) -> AnchorReceipt:
    try:
        record = cast("dict[str, Any]", json.loads(line))
        datetime.fromisoformat(record["at"])
        return AnchorReceipt(record["at"], tuple(map(str, record["lines"])), dict(record["proof"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise HostError(f"{file} contains a line that is no receipt", code="ledger.anchor") from None
