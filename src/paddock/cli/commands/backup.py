"""`paddock backup` and `paddock restore`: a whole home in one file, and back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from paddock.cli import options
from paddock.cli.command import command
from paddock.cli.output.report import print_json, print_message, styled
from paddock.core.printable import printable

if TYPE_CHECKING:
    from paddock.config.directories import Directories
    from paddock.host.backup.archive_format import BackupContents
    from paddock.ledger.chain.verifier import ChainFinding


@command("backup", examples=["paddock backup /mnt/backups/paddock.tar"])
@click.argument("file", metavar="FILE", help="The backup to write; it must not exist yet.")
@options.as_json
def backup(file: str, *, as_json: bool) -> None:
    """Write the settings, keys, database, ledger, plugins and their data into one file. A daemon may run meanwhile.

    The file contains keys: store it as carefully as the home itself. Logs of plugins are not included.

    The ledger in the copy is verified. If it was changed, the backup is written all the same, and the exit code is that
    of `paddock ledger verify`: a restore would refuse it.
    """
    from paddock import __version__
    from paddock.config.load import load_settings
    from paddock.config.project_file import working_directory
    from paddock.core.clock import SystemClock
    from paddock.host.backup.create import create_backup

    directories = _directories()
    settings = load_settings(directories, os.environ, cwd=working_directory()).settings
    store = settings.store.url or directories.database_file
    created = create_backup(directories, store, Path(file), version=__version__, clock=SystemClock())
    contents = created.contents
    missing = _not_included(contents, holds_secrets=created.holds_secrets)
    changed = [finding for finding in created.findings if finding.verdict != "sound"]
    if as_json:
        print_json(
            {
                "file": str(Path(file).absolute()),
                **_contents_json(contents),
                "ledger": [finding.to_json() for finding in created.findings],
                "not_included": missing,
            }
        )
    print_message(
        f"{styled('✓', 'green')} wrote {printable(file, 400)}: {contents.files:,} files, {_size_text(contents.size)}"
        + ("" if changed else _sound_ledger_text(created.findings))
    )
    for text in missing:
        print_message(f"{styled('!', 'yellow')} not included: {text}")
    if contents.holds_secret_keys:
        print_message(f"{styled('!', 'yellow')} it contains the key that decrypts your secrets: keep it safe")
    if changed:
        _report_changed_ledger(changed)


@command("restore", examples=["paddock restore /mnt/backups/paddock.tar"])
@click.argument("file", required=False, metavar="[FILE]", help="A file that `paddock backup` wrote.")
@click.option("--replace", "replace_", is_flag=True, help="Move what is in the home aside first.")
@click.option("--undo", is_flag=True, help="Put back what was in the home before a restore that was interrupted.")
@options.as_json
def restore(file: str | None, *, replace_: bool, undo: bool, as_json: bool) -> None:
    """Restore a home from a backup, after checking all its files and its ledger. No daemon may run.

    The home must be empty, but for a database with nothing in it. To restore into another one, set PADDOCK_HOME.
    """
    from paddock.host.backup.restore import restore_backup, undo_interrupted_restore

    directories = _directories()
    if undo is (file is not None):
        raise click.UsageError("name a backup, or give --undo alone")
    if file is None:
        undo_interrupted_restore(directories)
        if as_json:
            print_json({"undone": True})
        print_message(f"{styled('✓', 'green')} the home is what it was before the restore")
        return
    restored = restore_backup(Path(file), directories, replace=replace_)
    contents = restored.contents
    missing = _not_included(contents, holds_secrets=restored.holds_secrets)
    elsewhere = _configured_elsewhere(directories) if contents.engine == "sqlite" else None
    if as_json:
        print_json(
            {
                **_contents_json(contents),
                "ledger": [finding.to_json() for finding in restored.findings],
                "replaced": [str(path) for path in restored.replaced],
                "not_included": missing,
            }
        )
    print_message(
        f"{styled('✓', 'green')} restored {contents.files:,} files of {contents.created_at[:16]} UTC"
        f" (Paddock {printable(contents.version)})" + _sound_ledger_text(restored.findings)
    )
    for path in restored.replaced:
        print_message(f"  {styled('→', 'dim')} what was there before: {printable(str(path), 400)}")
    for text in missing:
        print_message(f"{styled('!', 'yellow')} not included: {text}")
    if elsewhere is not None:
        print_message(
            f"{styled('!', 'yellow')} the database is {directories.database_file}, and the settings (store.url) name"
            f" another one: {printable(elsewhere, 400)}"
        )
    print_message(f"  {styled('→', 'dim')} check this machine: paddock doctor")


def _directories() -> Directories:
    from paddock.config.directories import find_directories

    return find_directories(os.environ, Path.home())


def _sound_ledger_text(findings: Sequence[ChainFinding]) -> str:
    return f"; the ledger is sound, {sum(finding.rows for finding in findings):,} rows" if findings else ""


def _report_changed_ledger(changed: Sequence[ChainFinding]) -> None:
    """Report each chain that is not sound, and end with the exit code of `paddock ledger verify`."""
    from paddock.cli.commands.ledger.verify import worst_verdict

    for finding in changed:
        position = f" at row {finding.seq:,}" if finding.seq is not None else ""
        print_message(
            f"{styled('✗', 'red')} the ledger in it is {finding.verdict}{position} ({printable(finding.tenant)}):"
            f" {printable(finding.what, 400)}"
        )
    print_message(
        f"  {styled('→', 'dim')} restore will refuse this backup; keep an older one, and see: paddock ledger verify"
    )
    raise click.exceptions.Exit(worst_verdict(changed)[1])


def _configured_elsewhere(directories: Directories) -> str | None:
    """Return the database that the settings name, if it is not the one that was restored."""
    from paddock.config.load import load_settings
    from paddock.config.project_file import working_directory
    from paddock.core.errors import PaddockError
    from paddock.store.database import embedded_path

    try:
        url = load_settings(directories, os.environ, cwd=working_directory()).settings.store.url
    except PaddockError:
        return None  # the doctor tells
    return str(url) if url and embedded_path(url) != directories.database_file else None


def _contents_json(contents: BackupContents) -> dict[str, Any]:
    return {
        "created_at": contents.created_at,
        "version": contents.version,
        "engine": contents.engine,
        "files": contents.files,
        "bytes": contents.size,
        "holds_secret_keys": contents.holds_secret_keys,
    }


def _not_included(contents: BackupContents, *, holds_secrets: bool) -> list[str]:
    """Return what has to be backed up by other means."""
    missing: list[str] = []
    if contents.engine == "postgresql":
        missing.append("what is in PostgreSQL: the ledger, packages, artifacts, people and secrets; use pg_dump")
    if holds_secrets and not contents.holds_secret_keys:
        unknown = ", if there are any" if contents.engine == "postgresql" else ""
        missing.append(f"the wrapping key of the secrets{unknown}: it is not a file of this home")
    if contents.skipped:
        count = len(contents.skipped)
        more = f" and {count - 1} more" if count > 1 else ""
        missing.append(f"files that a plugin made unreadable: {printable(contents.skipped[0], 200)}{more}")
    return missing


def _size_text(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size:,} bytes"
