"""Builds the sender of the ledger's checkpoints from the settings, and runs it in a daemon."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path

from paddock.config.host_settings import LedgerSettings
from paddock.core.clock import Clock, Random
from paddock.ledger.anchor.schedule import open_anchors
from paddock.ledger.anchor.send import AnchorSender
from paddock.net.anchor_address import AnchorAddress, parse_anchor_address


def anchor_addresses(ledger: LedgerSettings) -> tuple[AnchorAddress, ...]:
    """Return the configured addresses, which were checked when the settings were loaded."""
    return tuple(parse_anchor_address(text) for text in ledger.anchors)


def anchor_sender(ledger: LedgerSettings, state: Path, environ: Mapping[str, str], random: Random) -> AnchorSender:
    """Build the sender of a home's checkpoints."""
    authorities = ledger.time_stamp_authorities
    return AnchorSender(state, environ, random, None if authorities is None else Path(authorities))


def open_anchor_schedule(
    ledger: LedgerSettings, state: Path, environ: Mapping[str, str], clock: Clock, random: Random
) -> AbstractAsyncContextManager[None]:
    """Send checkpoints to all configured addresses while the block runs."""
    sender = anchor_sender(ledger, state, environ, random)
    return open_anchors(anchor_addresses(ledger), sender, clock, timedelta(seconds=ledger.anchor_interval_s))
