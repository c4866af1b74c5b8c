"""Checks how old the last copy of the ledger's checkpoints is that left this machine."""

from __future__ import annotations

from datetime import datetime, timedelta

from paddock.config.directories import Directories
from paddock.config.settings import Settings
from paddock.core.errors import PaddockError
from paddock.core.printable import count_text
from paddock.host.doctor.check import Check, CheckStatus
from paddock.net.anchor_address import parse_anchor_address

_NAME = "ledger anchors"
_WHY = "The owner of these files can set the ledger back to an earlier checkpoint. Only a copy elsewhere shows that."
_LATE_INTERVALS = 3  # an anchor is late when it missed this many


def check_anchors(directories: Directories, settings: Settings | None, now: datetime) -> Check:
    """Check the age of the last receipt of every configured anchor."""
    # Imported here: needed only where the ledger has anchors.
    from paddock.ledger.anchor.receipt import read_failure, read_receipts
    from paddock.ledger.anchor.schedule import latest_checkpoints

    if settings is None:
        return Check(_NAME, CheckStatus.WARN, "could not be checked: the settings have to be fixed first", _WHY)
    if not settings.ledger.anchors:
        return Check(_NAME, CheckStatus.OK, "none: checkpoints stay on this machine (ledger.anchors)", _WHY)
    interval, late, lines = timedelta(seconds=settings.ledger.anchor_interval_s), False, list[str]()
    try:
        latest = latest_checkpoints(directories.state)
        for address in map(parse_anchor_address, settings.ledger.anchors):
            receipts = read_receipts(directories.state, address)
            sent = {line for receipt in receipts for line in receipt.lines}
            failure = read_failure(directories.state, address)
            if receipts:
                age = now - datetime.fromisoformat(receipts[-1].at)
                missing = any(line not in sent for line in latest)
                is_late = missing and age > _LATE_INTERVALS * interval
                text = f"{address.name}: {_age_text(age)} ago" + ("" if missing else ", and nothing is newer")
            else:
                is_late, text = bool(latest), f"{address.name}: nothing was sent yet"
            late = late or is_late or bool(failure)
            lines.append(f"{text}; the last attempt failed: {failure}" if failure else text)
    except PaddockError as error:
        return Check.of_error(_NAME, error, _WHY)
    if late:
        fix = "start the daemon, which sends them, and see its log"
        return Check(_NAME, CheckStatus.WARN, "; ".join(lines), _WHY, fix, "ledger.anchor", tuple(lines))
    return Check(_NAME, CheckStatus.OK, "; ".join(lines), _WHY)


def _age_text(age: timedelta) -> str:
    seconds = max(0, int(age.total_seconds()))
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return count_text(seconds // size, unit)
    return count_text(seconds, "second")
