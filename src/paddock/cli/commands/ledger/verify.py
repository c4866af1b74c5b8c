"""What `paddock ledger verify` does and says."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.cli.output.report import print_message, print_result, styled
from paddock.core.errors import NotFound, PaddockError
from paddock.core.printable import printable
from paddock.ledger.chain.verifier import EXIT_CODES, ChainFinding, ChainVerdict

_CLEAR_LINE = "\r\x1b[K"
_BAR_COLUMNS = 30
_DAEMON_TIMEOUT_S = 5.0  # seconds for the daemon, which is only asked for what makes the answer more useful
_MARKS: dict[ChainVerdict, tuple[str, str]] = {
    "sound": ("✓", "green"),
    "tampered": ("✗", "red"),
    "truncated": ("✗", "red"),
    "unreadable": ("?", "yellow"),
}


def verify_with_progress(tenant: str | None, anchors: Sequence[Path], keys: Sequence[Path]) -> list[ChainFinding]:
    """Verify, with a bar on the terminal that says how far it is.

    Raises:
        NotFound: there is no such tenant.
    """
    from paddock.cli.client.one_shot import open_for_read
    from paddock.ledger.chain.verify import verify_ledger

    try:
        with open_for_read() as host:
            return verify_ledger(
                host.plugins.database,
                host.directories.state,
                tenant=tenant,
                anchor_files=anchors,
                key_files=keys,
                report=_print_bar if sys.stderr.isatty() else None,
            )
    except NotFound:
        raise
    except PaddockError as error:  # a store that cannot be opened has an exit code of its own here
        return [ChainFinding(tenant or "-", "unreadable", error.message)]
    finally:
        if sys.stderr.isatty():
            sys.stderr.write(_CLEAR_LINE)
            sys.stderr.flush()


def find_checkpoint_problem() -> dict[str, Any] | None:
    """Why the daemon of this home makes no checkpoints; None where it does, or where none says so."""
    from paddock.cli.client.daemon_client import running_daemon

    try:
        daemon = running_daemon()
        if daemon is None:
            return None
        troubles: list[dict[str, Any]] = daemon.get("/status", wait=_DAEMON_TIMEOUT_S)["troubles"]
    except PaddockError:
        return None  # the chains were looked at without it
    return next((one for one in troubles if one["about"] == "checkpoints"), None)


def worst_verdict(found: Sequence[ChainFinding]) -> tuple[ChainVerdict, int]:
    """The verdict over all chains, and the exit code: one that was tampered with counts most."""
    verdicts = {finding.verdict for finding in found}
    for verdict in ("tampered", "truncated", "unreadable"):
        if verdict in verdicts:
            return verdict, EXIT_CODES[verdict]
    return "sound", 0


def print_findings(found: Sequence[ChainFinding], unsigned: Mapping[str, Any] | None) -> None:
    """One line for each chain, what that means below those that need it, and why no checkpoint follows."""
    if all(finding.empty for finding in found):
        print_message("nothing was recorded yet")
        found = []
    for finding in found:
        if finding.empty:
            print_result(
                f"{styled('·', 'dim', stream=sys.stdout)} {printable(finding.tenant)}: nothing was recorded yet"
            )
            continue
        mark, style = _MARKS[finding.verdict]
        where = f" at row {finding.seq:,}" if finding.seq is not None else ""
        name = f" ({finding.id})" if finding.id else ""
        what = f": {printable(finding.what, 400)}" if finding.what else ""
        counts = f"{_count_text(finding.rows, 'row')}, {_count_text(finding.checkpoints, 'checkpoint')}"
        front = f"{styled(mark, style, stream=sys.stdout)} {printable(finding.tenant)}: {finding.verdict}"
        print_result(f"{front}{where}{printable(name)}{what} ({counts})")
        if finding.verdict == "sound" and finding.erased:
            print_result(f"  what {_count_text(finding.erased, 'row')} said of people was erased, as the ledger tells")
        if finding.verdict == "sound" and finding.unsigned:
            print_result(
                f"  behind the last checkpoint: {_count_text(finding.unsigned, 'row')}, which nothing outside holds yet"
            )
        if len(finding.keys) > 1:
            print_result(f"  signed with {len(finding.keys)} keys, one after the other: {', '.join(finding.keys)}")
    if unsigned is not None:
        hint = f"; {unsigned['hint']}" if unsigned.get("hint") else ""
        print_message(f"{styled('!', 'yellow')} {printable(unsigned['message'], 400)}{printable(hint, 400)}")


def _count_text(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _print_bar(tenant: str, done: int, there: int) -> None:
    filled = _BAR_COLUMNS * done // max(there, 1)
    share = 100 * done // max(there, 1)
    bar = "█" * filled + "·" * (_BAR_COLUMNS - filled)
    sys.stderr.write(f"{_CLEAR_LINE}{printable(tenant, 40)} {bar} {share:3} % of {there:,} rows ")
    sys.stderr.flush()
