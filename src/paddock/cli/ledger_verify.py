"""What `paddock ledger verify` does and says."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paddock.cli.output import result, say, styled
from paddock.core.errors import NotFound, PaddockError
from paddock.core.printable import printable
from paddock.ledger.verify import EXIT_CODES, Finding, Verdict

_WIPE = "\r\x1b[K"
_WIDTH = 30
_PATIENCE = 5.0  # seconds for the daemon, which is only asked for what makes the answer more useful
_MARKS: dict[Verdict, tuple[str, str]] = {
    "sound": ("✓", "green"),
    "tampered": ("✗", "red"),
    "truncated": ("✗", "red"),
    "unreadable": ("?", "yellow"),
}


def findings(tenant: str | None, anchors: Sequence[Path], keys: Sequence[Path]) -> list[Finding]:
    """Verify, with a bar on the terminal that says how far it is.

    Raises:
        NotFound: there is no such tenant.
    """
    from paddock.cli.opening import reading
    from paddock.ledger.verifying import verify_ledger

    try:
        with reading() as host:
            return verify_ledger(
                host.plugins.database,
                host.directories.state,
                tenant=tenant,
                anchor_files=anchors,
                key_files=keys,
                report=_bar if sys.stderr.isatty() else None,
            )
    except NotFound:
        raise
    except PaddockError as error:  # a store that cannot be opened has an exit code of its own here
        return [Finding(tenant or "-", "unreadable", error.message)]
    finally:
        if sys.stderr.isatty():
            sys.stderr.write(_WIPE)
            sys.stderr.flush()


def unsigned_because() -> dict[str, Any] | None:
    """Why the daemon of this home makes no checkpoints; None where it does, or where none says so."""
    from paddock.cli.daemon import running_daemon

    try:
        daemon = running_daemon()
        if daemon is None:
            return None
        troubles: list[dict[str, Any]] = daemon.get("/status", wait=_PATIENCE)["troubles"]
    except PaddockError:
        return None  # the chains were looked at without it
    return next((one for one in troubles if one["about"] == "checkpoints"), None)


def worst(found: Sequence[Finding]) -> tuple[Verdict, int]:
    """The verdict over all chains, and the exit code: one that was tampered with counts most."""
    verdicts = {finding.verdict for finding in found}
    for verdict in ("tampered", "truncated", "unreadable"):
        if verdict in verdicts:
            return verdict, EXIT_CODES[verdict]
    return "sound", 0


def show_findings(found: Sequence[Finding], unsigned: Mapping[str, Any] | None) -> None:
    """One line for each chain, what that means below those that need it, and why no checkpoint follows."""
    if all(finding.empty for finding in found):
        say("nothing was recorded yet")
        found = []
    for finding in found:
        if finding.empty:
            result(f"{styled('·', 'dim', stream=sys.stdout)} {printable(finding.tenant)}: nothing was recorded yet")
            continue
        mark, style = _MARKS[finding.verdict]
        where = f" at row {finding.seq:,}" if finding.seq is not None else ""
        name = f" ({finding.id})" if finding.id else ""
        what = f": {printable(finding.what, 400)}" if finding.what else ""
        counts = f"{_count(finding.rows, 'row')}, {_count(finding.checkpoints, 'checkpoint')}"
        front = f"{styled(mark, style, stream=sys.stdout)} {printable(finding.tenant)}: {finding.verdict}"
        result(f"{front}{where}{printable(name)}{what} ({counts})")
        if finding.verdict == "sound" and finding.erased:
            result(f"  what {_count(finding.erased, 'row')} said of people was erased, as the ledger tells")
        if finding.verdict == "sound" and finding.unsigned:
            result(f"  behind the last checkpoint: {_count(finding.unsigned, 'row')}, which nothing outside holds yet")
        if len(finding.keys) > 1:
            result(f"  signed with {len(finding.keys)} keys, one after the other: {', '.join(finding.keys)}")
    if unsigned is not None:
        hint = f"; {unsigned['hint']}" if unsigned.get("hint") else ""
        say(f"{styled('!', 'yellow')} {printable(unsigned['message'], 400)}{printable(hint, 400)}")


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _bar(tenant: str, done: int, there: int) -> None:
    filled = _WIDTH * done // max(there, 1)
    share = 100 * done // max(there, 1)
    bar = "█" * filled + "·" * (_WIDTH - filled)
    sys.stderr.write(f"{_WIPE}{printable(tenant, 40)} {bar} {share:3} % of {there:,} rows ")
    sys.stderr.flush()
