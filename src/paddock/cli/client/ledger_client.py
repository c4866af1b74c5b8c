"""Ledger entries for commands: from the daemon if one runs, otherwise from the store.

A daemon knows entries that are not written yet. Without one nothing else knows more than the store, which can also be
read in a home where no host can be opened.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from paddock.cli.client.api_client import path_segment, running_daemon
from paddock.cli.client.local_store import open_for_read
from paddock.cli.output.report import print_message, styled
from paddock.config.project_file import working_directory
from paddock.core.errors import PaddockError
from paddock.core.printable import printable
from paddock.host.ledger.reader import no_entries_error
from paddock.host.wiring.local_store import open_local_store
from paddock.ledger.chain.chains import require_chain
from paddock.ledger.chain.verify import find_altered
from paddock.ledger.entry import LedgerEntry
from paddock.ledger.read.entries import MAX_PAGE_ENTRIES, EntryFilter, find_entries, last_seq, list_entries

_DAEMON_TIMEOUT_S = 10.0  # short: the store is read instead
_POLL_INTERVAL_S = 0.25


class LatestEntries(NamedTuple):
    """The last entries, oldest first, and the sequence number after which later ones are found."""

    entries: list[LedgerEntry]
    end: int


class EntryHistory(NamedTuple):
    """The entries of one id, in order, and those that are not what was recorded."""

    entries: list[LedgerEntry]
    altered: list[LedgerEntry]


def read_latest(tenant: str, entry_filter: EntryFilter, *, before: int | None, count: int) -> LatestEntries:
    """Return the last entries that match.

    Raises:
        NotFound: there is no such tenant, and it left no chain.
    """
    page = _ask_daemon(tenant, f"/ledger?{_query(entry_filter, before=before, limit=count or 1)}")
    if page is not None:
        return LatestEntries([LedgerEntry(**entry) for entry in page["entries"][:count][::-1]], page["end"])
    with open_for_read() as store:
        database = store.plugins.database
        require_chain(database, store.directories.state, tenant)
        entries, end = database.read(
            lambda tx: (list_entries(tx, tenant, entry_filter, before=before, limit=count), last_seq(tx, tenant))
        )
    return LatestEntries(entries[::-1], end)


def read_key_names(tenant: str, entries: Iterable[LedgerEntry]) -> dict[str, str]:
    """Return what API keys are called, by principal, if an entry names a key. People are named by their login names."""
    if not any(str(value).startswith("key:") for entry in entries for value in entry.personal.values()):
        return {}
    from paddock.principals.display_names import read_names

    with open_for_read() as store:
        names = store.plugins.database.read(lambda tx: read_names(tx, tenant))
    return {principal: name for principal, name in names.items() if principal.startswith("key:")}


def find_history(tenant: str, name: str) -> EntryHistory:
    """Return the entry with this id, or all entries of the call or request with this id.

    Raises:
        NotFound: there is none, or no such tenant.
    """
    if not name or "/" in name or not name.isprintable():
        raise no_entries_error(name)  # no id is written like this
    history = _ask_daemon(tenant, f"/ledger/{path_segment(name)}")
    if history is not None:
        entries = [LedgerEntry(**entry) for entry in history["entries"]]
        return EntryHistory(entries, [entry for entry in entries if entry.id in history["altered"]])
    with open_for_read() as store:
        database = store.plugins.database
        require_chain(database, store.directories.state, tenant)
        entries, altered = database.read(
            lambda tx: (entries := find_entries(tx, name, tenant), find_altered(tx, entries))
        )
    if not entries:
        raise no_entries_error(name)
    return EntryHistory(entries, altered)


def follow_entries(tenant: str, entry_filter: EntryFilter, after: int) -> Generator[LedgerEntry, None, None]:
    """Yield the entries after a sequence number as they are recorded. Goes on with the store if the daemon stops."""
    try:
        daemon = running_daemon(tenant=tenant)
        if daemon is not None:
            with daemon.stream_events(f"/ledger?{_query(entry_filter, follow=1, after=after)}") as events:
                for _, entry in events:
                    after = entry["seq"]
                    yield LedgerEntry(**entry)
    except PaddockError as error:
        _require_daemon_failure(error)
    with open_local_store(os.environ, Path.home(), cwd=working_directory()) as store:
        while True:
            end, entries = store.plugins.database.read(
                lambda tx, seq=after: (
                    last_seq(tx, tenant),
                    list_entries(tx, tenant, entry_filter, after=seq, newest_first=False, limit=MAX_PAGE_ENTRIES),
                )
            )
            yield from entries
            if len(entries) == MAX_PAGE_ENTRIES:
                after = entries[-1].seq
                continue
            after = max(after, end)
            time.sleep(_POLL_INTERVAL_S)


def _ask_daemon(tenant: str, path: str) -> Any:
    """Return what the daemon responds; None if no daemon runs, or if it does not answer, which is reported."""
    try:
        daemon = running_daemon(tenant=tenant)
        return None if daemon is None else daemon.get(path, timeout_s=_DAEMON_TIMEOUT_S)
    except PaddockError as error:
        _require_daemon_failure(error)
        warning = f"{printable(error.message, 200)}: its latest entries may be missing here"
        print_message(f"{styled('!', 'yellow')} {warning}")
        return None


def _require_daemon_failure(error: PaddockError) -> None:
    """Raise an error again unless it says that the daemon cannot be asked."""
    if not error.error_code.startswith("daemon."):
        raise error


def _query(entry_filter: EntryFilter, **more: int | None) -> str:
    from urllib.parse import urlencode

    names = ("type", "plugin", "call", "request", "principal", "since", "until")
    values = {name: getattr(entry_filter, name) for name in names} | more
    return urlencode({name: value for name, value in values.items() if value is not None})
