"""Reads checkpoints back from where they were sent, to verify the chains against them. Blocking."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from pathlib import Path

from paddock.core.action import Action
from paddock.core.errors import HostError, PaddockError
from paddock.ledger.anchor.receipt import AnchorReceipt, document_digest, read_receipts
from paddock.ledger.anchor.send import AnchorSender, verify_time_stamp
from paddock.ledger.anchor.time_stamp import TimeStampInvalid, parse_response, require_answer
from paddock.ledger.chain.chains import read_anchor_files
from paddock.net.anchor_address import AnchorAddress


def read_anchor_copies(addresses: Sequence[AnchorAddress], sender: AnchorSender) -> dict[str, list[bytes]]:
    """Return the checkpoint lines that each address holds, by its name.

    A file and a git branch are read where they are. A webhook and a time stamping authority cannot be asked: there the
    receipts of this home count, and their time stamps are checked.

    Raises:
        PaddockError: an address cannot be read, holds nothing, or a receipt does not fit.
    """
    if not addresses:
        raise HostError(
            "no anchor is configured",
            code="ledger.anchor",
            hint="set ledger.anchors, or name a file of checkpoints",
            action=Action.of("ledger.verify", anchor="FILE"),
        )
    return {address.name: _read_copy(address, sender) for address in addresses}


def _read_copy(address: AnchorAddress, sender: AnchorSender) -> list[bytes]:
    match address.kind:
        case "file":
            (lines,) = read_anchor_files([Path(address.location)]).values()
        case "git":
            lines = sender.git_branch(address).read_added_lines()
        case "webhook" | "rfc3161":
            receipts = read_receipts(sender.state, address)
            if address.kind == "rfc3161":
                for receipt in receipts:
                    _check_time_stamp(address, receipt, sender)
            lines = [line.encode() for receipt in receipts for line in receipt.lines]
    if not lines:
        raise HostError(f"{address.name} holds no checkpoint", code="ledger.anchor")
    return lines


def _check_time_stamp(address: AnchorAddress, receipt: AnchorReceipt, sender: AnchorSender) -> None:
    try:
        response, digest = base64.b64decode(str(receipt.proof.get("response"))), document_digest(receipt.document)
        require_answer(parse_response(response), digest)
    except (TimeStampInvalid, ValueError) as error:
        raise HostError(f"a receipt of {address.name} is not sound: {error}", code="ledger.anchor") from None
    if sender.authority_file is not None:
        try:
            verify_time_stamp(response, digest, sender.authority_file, sender.environ)
        except PaddockError as error:
            raise HostError(f"{address.name}: {error.message}", code="ledger.anchor", hint=error.hint) from None
