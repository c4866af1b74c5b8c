"""Loads the rules of this machine: the shipped ones, then every `*.cedar` file of the custom folder."""

from __future__ import annotations

import os
import shlex
import stat
from pathlib import Path
from typing import Final

from paddock.config.directories import Directories, refuse_unsafe_directory
from paddock.config.settings import PolicySettings
from paddock.core.errors import Invalid, OperatorError, Problem, Unreachable
from paddock.policy.engine import Policy
from paddock.policy.rules import RuleFile, checked_rules, shipped_rule_file
from paddock.policy.schema import build_vocabulary

MAX_RULE_FILE_BYTES: Final = 4 << 20
MAX_RULE_FILES: Final = 1_000


def load_policy(directories: Directories, settings: PolicySettings) -> Policy:
    """Load the policy of this machine.

    Raises:
        Invalid: with every mistake in custom rules, each with file and line.
        OperatorError: a file cannot be read, or others can write it.
        Unreachable: the folder named by the setting does not exist.
    """
    folder = custom_rules_folder(directories, settings)
    files = [shipped_rule_file()]
    if folder is not None:
        refuse_unsafe_directory(folder)
        files += read_rule_folder(folder, guarded=True)
    return Policy(checked_rules(files, build_vocabulary(settings.tags)))


def custom_rules_folder(directories: Directories, settings: PolicySettings) -> Path | None:
    """Return the folder of custom rules; None if the default folder does not exist.

    Raises:
        Unreachable: the folder named by the setting does not exist.
    """
    if settings.directory is None:
        default = directories.config / "policies"
        return default if default.is_dir() else None
    configured = Path(settings.directory)
    if not configured.is_dir():
        raise Unreachable(
            f"there is no folder {configured}, which policy.directory names",
            code="policy.no_folder",
            hint=f"mkdir {shlex.quote(str(configured))}   # or unset policy.directory",
        )
    return configured


def rules_fingerprint(directories: Directories, settings: PolicySettings) -> object:
    """Return a fingerprint of the rule files' metadata: equal to an earlier one if nobody touched them since.

    Never raises: an error is part of the fingerprint.
    """
    try:
        folder = custom_rules_folder(directories, settings)
        if folder is None:
            return None
        with os.scandir(folder) as entries:
            files = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".cedar")]
        mode = folder.stat().st_mode
    except (OSError, OperatorError) as error:
        return str(error)
    metadata = [
        (name, stats.st_mtime_ns, stats.st_size, stats.st_ino, stats.st_mode, stats.st_uid) for name, stats in files
    ]
    return (str(folder), mode, sorted(metadata))


def read_rule_folder(folder: Path, *, guarded: bool) -> list[RuleFile]:
    """Read the rule files of a folder, by name; subfolders are ignored.

    Args:
        folder: The folder.
        guarded: Whether to reject files that others could have written: required for rules that decide.

    Raises:
        Invalid: a file is not text, or too large.
        OperatorError: a file cannot be read, or others can write it.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.suffix == ".cedar" and not path.name.startswith("."))
    except OSError as error:
        raise Unreachable(f"cannot look into {folder}: {error.strerror}", code="policy.no_folder") from error
    if len(paths) > MAX_RULE_FILES:
        raise OperatorError(f"{folder} holds more than {MAX_RULE_FILES:,} files of rules", code="policy.too_large")
    files: list[RuleFile] = []
    problems: list[Problem] = []
    for path in paths:
        content = read_rule_file(path, guarded=guarded)
        try:
            files.append(RuleFile(str(path), content.decode("utf-8")))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            problems.append(Problem(str(path), "is not UTF-8 text", "save it as UTF-8", "policy.rule", line))
    if problems:
        raise Invalid("rules cannot be read", problems, code="policy.invalid")
    return files


def read_rule_file(path: Path, *, guarded: bool) -> bytes:
    """Read one file of the folder; raises OperatorError as `read_rule_folder` does."""
    try:
        # Non-blocking: a FIFO in place of the file must not hang us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="policy.unreadable") from error
    stats = os.fstat(descriptor)
    if not stat.S_ISREG(stats.st_mode):  # a folder cannot even be opened as a file
        os.close(descriptor)
        raise OperatorError(f"{path} is not an ordinary file", code="policy.unreadable")
    with os.fdopen(descriptor, "rb") as file:
        if guarded:
            _refuse_unsafe(path, stats)
        content = file.read(MAX_RULE_FILE_BYTES + 1)
    if len(content) > MAX_RULE_FILE_BYTES:
        raise OperatorError(f"{path} is larger than {MAX_RULE_FILE_BYTES >> 20} MiB", code="policy.too_large")
    return content


def has_own_cases(path: Path) -> bool:
    """Return whether there is a file of own cases at a path.

    Raises:
        OperatorError: what is there is not a regular file, e.g. a link or a folder, or cannot be looked at.
    """
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="policy.unreadable") from error
    if stat.S_ISREG(mode):
        return True
    kind, hint = "not an ordinary file", "move it away"
    if stat.S_ISLNK(mode):
        kind, hint = "a link", "put the file itself there"
    elif stat.S_ISDIR(mode):
        kind = "a folder"
    raise OperatorError(f"{path} is {kind}", code="policy.unreadable", hint=hint)


def _refuse_unsafe(path: Path, stats: os.stat_result) -> None:
    if stats.st_uid not in (os.geteuid(), 0):
        raise OperatorError(
            f"{path} belongs to user {stats.st_uid}, not to you",
            code="policy.unsafe",
            hint=f"sudo chown {os.geteuid()} {shlex.quote(str(path))}   # if you trust what it says",
        )
    if stats.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(
            f"others can write {path} (mode {stat.S_IMODE(stats.st_mode):04o}), and it decides what may happen",
            code="policy.unsafe",
            hint=f"chmod go-w {shlex.quote(str(path))}",
        )
