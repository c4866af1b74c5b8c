"""The implementation and output of `paddock ledger verify`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paddock.cli.output.report import print_message, print_result, styled
from paddock.core.errors import NotFound, PaddockError
from paddock.core.printable import count_text, printable
from paddock.ledger.chain.verifier import EXIT_CODES, ChainFinding, ChainVerdict

if TYPE_CHECKING:
    from paddock.config.directories import Directories

_CLEAR_LINE = "\r\x1b[K"
_BAR_COLUMNS = 30
_DAEMON_TIMEOUT_S = 5.0  # short: the daemon only adds a hint to the result
_MARKS: dict[ChainVerdict, tuple[str, str]] = {
    "sound": ("✓", "green"),
    "tampered": ("✗", "red"),
    "truncated": ("✗", "red"),
    "unreadable": ("?", "yellow"),
}


def verify_with_progress(tenant: str | None, anchors: Sequence[str], keys: Sequence[Path]) -> list[ChainFinding]:
    """Verify the chains, with a progress bar on the terminal.

    Args:
        tenant: The only tenant to verify; all if None.
        anchors: Files of checkpoints; an empty name stands for the configured anchors.
        keys: Public keys to trust instead of those of this home.

    Raises:
        NotFound: there is no such tenant.
    """
    from paddock.cli.client.local_store import open_for_read
    from paddock.ledger.chain.verify import verify_ledger

    try:
        with open_for_read() as store:
            copies = _configured_copies(store.directories) if "" in anchors else None
            return verify_ledger(
                store.plugins.database,
                store.directories.state,
                tenant=tenant,
                anchor_files=[Path(name) for name in anchors if name],
                anchor_lines=copies,
                key_files=keys,
                report=_print_bar if sys.stderr.isatty() else None,
                address=store.loaded.settings.store.url or store.directories.database_file,
            )
    except NotFound:
        raise
    except PaddockError as error:  # a store that cannot be opened has its own exit code here
        return [ChainFinding(tenant or "-", "unreadable", error.message)]
    finally:
        if sys.stderr.isatty():
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


def _configured_copies(directories: Directories) -> dict[str, list[bytes]]:
    """Read the checkpoints back that were sent to the configured anchors."""
    from paddock.config.load import load_settings
    from paddock.core.clock import SystemRandom
    from paddock.host.wiring.anchor_schedule import anchor_addresses, anchor_sender
    from paddock.ledger.anchor.copies import read_anchor_copies

    settings = load_settings(directories, os.environ).settings.ledger
    sender = anchor_sender(settings, directories.state, os.environ, SystemRandom())
    return read_anchor_copies(anchor_addresses(settings), sender)


def find_checkpoint_problem() -> dict[str, Any] | None:
    """Return why this home's daemon makes no checkpoints; None if it does, or if no daemon says so."""
    from paddock.cli.client.api_client import running_daemon

    try:
        daemon = running_daemon()
        if daemon is None:
            return None
        problems: list[dict[str, Any]] = daemon.get("/status", timeout_s=_DAEMON_TIMEOUT_S)["troubles"]
    except PaddockError:
        return None  # the chains were verified without it
    return next((problem for problem in problems if problem["about"] == "checkpoints"), None)


def worst_verdict(findings: Sequence[ChainFinding]) -> tuple[ChainVerdict, int]:
    """Return the verdict over all chains, and the exit code: tampering counts most."""
    verdicts = {finding.verdict for finding in findings}
    for verdict in ("tampered", "truncated", "unreadable"):
        if verdict in verdicts:
            return verdict, EXIT_CODES[verdict]
    return "sound", 0


def print_findings(findings: Sequence[ChainFinding], unsigned: Mapping[str, Any] | None) -> None:
    """Print one line per chain, details below those that need them, and why checkpoints are missing."""
    if all(finding.empty for finding in findings):
        print_message("nothing was recorded yet")
        findings = []
    for finding in findings:
        if finding.empty:
            print_result(
                f"{styled('·', 'dim', stream=sys.stdout)} {printable(finding.tenant)}: nothing was recorded yet"
            )
            continue
        mark, style = _MARKS[finding.verdict]
        position = f" at row {finding.seq:,}" if finding.seq is not None else ""
        name = f" ({finding.id})" if finding.id else ""
        detail = f": {printable(finding.what, 400)}" if finding.what else ""
        counts = f"{count_text(finding.rows, 'row')}, {count_text(finding.checkpoints, 'checkpoint')}"
        prefix = f"{styled(mark, style, stream=sys.stdout)} {printable(finding.tenant)}: {finding.verdict}"
        print_result(f"{prefix}{position}{printable(name)}{detail} ({counts})")
        if finding.verdict == "sound" and finding.erased:
            print_result(f"  what {count_text(finding.erased, 'row')} said of people was erased, as the ledger tells")
        if finding.verdict == "sound" and finding.unsigned:
            verb = "is" if finding.unsigned == 1 else "are"
            print_result(f"  {count_text(finding.unsigned, 'row')} {verb} not covered by a checkpoint yet")
        if len(finding.keys) > 1:
            print_result(f"  signed with {len(finding.keys)} keys, one after the other: {', '.join(finding.keys)}")
    if unsigned is not None:
        hint = f"; {unsigned['hint']}" if unsigned.get("hint") else ""
        print_message(f"{styled('!', 'yellow')} {printable(unsigned['message'], 400)}{printable(hint, 400)}")


def _print_bar(tenant: str, done: int, total: int) -> None:
    filled = _BAR_COLUMNS * done // max(total, 1)
    share = 100 * done // max(total, 1)
    bar = "█" * filled + "·" * (_BAR_COLUMNS - filled)
    sys.stderr.write(f"{_CLEAR_LINE}{printable(tenant, 40)} {bar} {share:3} % of {total:,} rows ")
    sys.stderr.flush()
