"""Checks the system: Python, SQLite, git, node, PostgreSQL, disk space and file permissions."""

from __future__ import annotations

import os
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from paddock.cage.bounded_process import ProcessLimits, run_bounded
from paddock.config.directories import Directories, sudo_user
from paddock.core.action import Action
from paddock.host.doctor.check import Check, CheckStatus

# The first release without the bug that can corrupt a database when its write-ahead log is restarted.
_MIN_SOUND_SQLITE = (3, 51, 3)


def check_python(version: tuple[int, int, int]) -> Check:
    """Check Python's version."""
    found = ".".join(map(str, version))
    if version >= (3, 11, 0):
        return Check("Python", CheckStatus.OK, f"{found} at {sys.executable}")
    return Check(
        "Python",
        CheckStatus.FAIL,
        found,
        "Paddock needs 3.11 or newer.",
        "sudo apt install python3.11 python3.11-venv",
    )


def check_sqlite(data: Path) -> Check:
    """Check that SQLite is sound, loads extensions, and can keep a write-ahead log where the data will be."""
    import apsw

    version = apsw.sqlite_lib_version()
    directory = nearest_existing(data)
    why = "The database lives in the data directory."
    if not os.access(directory, os.W_OK | os.X_OK):
        return Check(
            "SQLite", CheckStatus.FAIL, f"{version}, but {directory} cannot be written", why, f"ls -ld {directory}"
        )
    try:
        with tempfile.TemporaryDirectory(dir=directory, prefix=".paddock-doctor-") as scratch:
            mode = _try_wal(Path(scratch) / "probe.db")
    except (apsw.FullError, OSError) as error:
        found = f"{version}, but {directory} cannot be written: {error}"
        return Check("SQLite", CheckStatus.FAIL, found, why, f"df -h {directory}")
    if mode != "wal":
        return Check(
            "SQLite",
            CheckStatus.FAIL,
            f"{version}, but {directory} keeps no write-ahead log (journal mode {mode})",
            "The store needs one; network file systems often cannot.",
            "export PADDOCK_HOME=/a/local/disk/paddock",
        )
    if tuple(int(part) for part in version.split(".")[:3]) < _MIN_SOUND_SQLITE:
        releases = f"Releases before {'.'.join(map(str, _MIN_SOUND_SQLITE))} can corrupt a database in rare cases."
        return Check("SQLite", CheckStatus.WARN, version, releases, f"{sys.executable} -m pip install --upgrade apsw")
    return Check("SQLite", CheckStatus.OK, f"{version}, write-ahead log works in {directory}, extensions can be loaded")


def _try_wal(path: Path) -> str:
    """Write on one connection and read on another; return the journal mode that was really used."""
    # apsw's types are partly unknown to the type checker, hence the three ignores below.
    import apsw

    writer = apsw.Connection(str(path))
    reader: apsw.Connection | None = None
    try:
        writer.enable_load_extension(True)
        writer.set_busy_timeout(2000)
        mode = str(writer.pragma("journal_mode", "wal"))  # pyright: ignore[reportUnknownMemberType]
        writer.execute("create table probe (n integer); insert into probe values (42)")  # pyright: ignore[reportUnknownMemberType]
        reader = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        if reader.execute("select n from probe").get != 42:  # pyright: ignore[reportUnknownMemberType]
            return "unreadable"
        return mode
    finally:
        if reader is not None:
            reader.close()
        writer.close()


def check_git(environ: Mapping[str, str]) -> Check:
    """Check for git, needed to install from a repository."""
    return _check_program(
        "git", environ, "Plugins from a git address cannot be installed without it.", "sudo apt install git"
    )


def check_node(environ: Mapping[str, str]) -> Check:
    """Check for node, needed only by plugins written in JavaScript."""
    return _check_program(
        "node", environ, "Only plugins written in JavaScript or TypeScript need it.", "sudo apt install nodejs"
    )


def check_postgresql(url: str) -> Check:
    """Check PostgreSQL by connecting; the URL is never shown, since it may hold a password."""
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=5, options="-c statement_timeout=5000") as connection:
            row = connection.execute("show server_version").fetchone()
    except psycopg.Error as error:
        # The server's message names host, user and database at most; ours would contain the URL.
        reason = type(error).__name__ if isinstance(error, psycopg.ProgrammingError) else str(error).strip()
        return Check(
            "PostgreSQL",
            CheckStatus.FAIL,
            f"cannot connect: {reason}",
            "store.url names this server, so nothing can be read or written without it.",
            'psql "$PADDOCK_STORE_URL" -c "select 1"',
        )
    return Check("PostgreSQL", CheckStatus.OK, f"server {row[0] if row else 'of unknown version'} answers")


def nearest_existing(path: Path) -> Path:
    """Return the path, or its nearest existing parent directory."""
    return next((parent for parent in (path, *path.parents) if parent.exists()), Path("/"))


def _check_program(name: str, environ: Mapping[str, str], why: str, fix: str) -> Check:
    program = shutil.which(name, path=environ.get("PATH", os.defpath))
    if program is None:
        return Check(name, CheckStatus.WARN, "not installed", why, fix)
    result = run_bounded([program, "--version"], {"PATH": environ.get("PATH", os.defpath)}, ProcessLimits(10))
    if result.status != 0:
        return Check(name, CheckStatus.WARN, f"{program} {result.outcome_text}", why, fix)
    return Check(name, CheckStatus.OK, f"{result.first_line} at {program}")


_MIB = 1 << 20
_GIB = 1 << 30


def check_disk(data: Path) -> Check:
    """Check the free space of the data disk, as available to an ordinary user."""
    directory = nearest_existing(data)
    stats = os.statvfs(directory)
    return evaluate_disk(stats.f_bavail * stats.f_frsize, directory)


def evaluate_disk(free: int, directory: Path) -> Check:
    """Evaluate free space: less than 100 MiB fails, less than 1 GiB warns."""
    amount = f"{free / _GIB:.1f} GiB" if free >= _GIB else f"{free // _MIB} MiB"
    found = f"{amount} free at {directory}"
    if free >= _GIB:
        return Check("disk", CheckStatus.OK, found)
    status = CheckStatus.WARN if free >= 100 * _MIB else CheckStatus.FAIL
    why = "With a full disk nothing can be recorded, and calls that cannot be recorded do not run."
    return Check("disk", status, found, why, f"du -xh {shlex.quote(str(directory))} | sort -h | tail")


def check_permissions(directories: Directories) -> Check:
    """Check owner and mode of our directories, `local.toml`, `config.toml` and the database."""
    complaints: list[str] = []
    fixes: list[str] = []
    actions: list[Action] = []
    status = CheckStatus.OK
    for directory in directories.all():
        status = _check_path(directory, 0o022, "chmod 0700", status, complaints, fixes, actions)
    status = _check_path(directories.config_file, 0o022, "chmod go-w", status, complaints, fixes, actions)
    status = _check_path(directories.local_file, 0o077, "chmod 0600", status, complaints, fixes, actions)
    for database in sorted(directories.data.glob("*.db*")) if directories.data.is_dir() else ():
        status = _check_path(database, 0o077, "chmod 0600", status, complaints, fixes, actions)
    if status is CheckStatus.OK:
        existing = [path for path in directories.all() if path.exists()]
        found = f"{len(existing)} directories are private to you" if existing else "no directory exists yet"
        return Check("permissions", CheckStatus.OK, found)
    why = "These hold secrets and decide what plugins may do; only you should read or change them."
    fix, unique = " && ".join(dict.fromkeys(fixes)), tuple(dict.fromkeys(actions))
    return Check("permissions", status, "; ".join(complaints), why, fix, actions=unique)


def _check_path(
    path: Path,
    forbidden: int,
    fix_command: str,
    status: CheckStatus,
    complaints: list[str],
    fixes: list[str],
    actions: list[Action],
) -> CheckStatus:
    """Add the problems of one path, if any."""
    try:
        stats = path.stat()
    except FileNotFoundError:
        return status
    quoted = shlex.quote(str(path))
    if stats.st_uid not in (os.geteuid(), 0):
        complaints.append(f"{path} belongs to user {stats.st_uid}")
        actions.append(Action.of("host.check", user=sudo_user(stats.st_uid)))
    elif stats.st_mode & forbidden:
        complaints.append(f"{path} has mode {stat.S_IMODE(stats.st_mode):04o}")
        fixes.append(f"{fix_command} {quoted}")
    else:
        return status
    return CheckStatus.FAIL
