"""Reading the rules of this machine from disk: the shipped ones, then every `*.cedar` file of one's own folder."""

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


def load_policy(directories: Directories, policy: PolicySettings) -> Policy:
    """The policy that holds on this machine.

    Raises:
        Invalid: with every mistake in one's own rules, each with its file and line.
        OperatorError: a file cannot be read, or others can write it.
        Unreachable: the folder that a setting names is not there.
    """
    folder = custom_rules_folder(directories, policy)
    files = [shipped_rule_file()]
    if folder is not None:
        refuse_unsafe_directory(folder)
        files += read_rule_folder(folder, guarded=True)
    return Policy(checked_rules(files, build_vocabulary(policy.tags)))


def custom_rules_folder(directories: Directories, policy: PolicySettings) -> Path | None:
    """Where one's own rules stand; None where nobody made the usual folder.

    Raises:
        Unreachable: the folder that a setting names is not there.
    """
    if policy.directory is None:
        usual = directories.config / "policies"
        return usual if usual.is_dir() else None
    named = Path(policy.directory)
    if not named.is_dir():
        raise Unreachable(
            f"there is no folder {named}, which policy.directory names",
            code="policy.no_folder",
            hint=f"mkdir {shlex.quote(str(named))}   # or unset policy.directory",
        )
    return named


def rules_fingerprint(directories: Directories, policy: PolicySettings) -> object:
    """What the files of rules look like from outside: equal to an earlier one where nobody touched them since.

    Never raises: what cannot be looked at is part of how it looks.
    """
    try:
        folder = custom_rules_folder(directories, policy)
        if folder is None:
            return None
        with os.scandir(folder) as entries:
            found = [(entry.name, entry.stat()) for entry in entries if entry.name.endswith(".cedar")]
        mode = folder.stat().st_mode
    except (OSError, OperatorError) as error:
        return str(error)
    looks = [(name, one.st_mtime_ns, one.st_size, one.st_ino, one.st_mode, one.st_uid) for name, one in found]
    return (str(folder), mode, sorted(looks))


def read_rule_folder(folder: Path, *, guarded: bool) -> list[RuleFile]:
    """The rule files of a folder, by name; what lies deeper is not looked at.

    Args:
        folder: Where to look.
        guarded: Whether to refuse files that others could have written: those that are to decide.

    Raises:
        Invalid: files that are not text, or too large.
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
        content = _read_rule_file(path, guarded=guarded)
        try:
            files.append(RuleFile(str(path), content.decode("utf-8")))
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            problems.append(Problem(str(path), "is not UTF-8 text", "save it as UTF-8", "policy.rule", line))
    if problems:
        raise Invalid("rules cannot be read", problems, code="policy.invalid")
    return files


def _read_rule_file(path: Path, *, guarded: bool) -> bytes:
    try:
        # Non-blocking: a FIFO in place of the file must not hang us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise OperatorError(f"cannot read {path}: {error.strerror}", code="policy.unreadable") from error
    with os.fdopen(descriptor, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise OperatorError(f"{path} is not an ordinary file", code="policy.unreadable")
        if guarded:
            _refuse_unsafe(path, found)
        content = opened.read(MAX_RULE_FILE_BYTES + 1)
    if len(content) > MAX_RULE_FILE_BYTES:
        raise OperatorError(f"{path} is larger than {MAX_RULE_FILE_BYTES >> 20} MiB", code="policy.too_large")
    return content


def _refuse_unsafe(path: Path, found: os.stat_result) -> None:
    if found.st_uid not in (os.geteuid(), 0):
        raise OperatorError(
            f"{path} belongs to user {found.st_uid}, not to you",
            code="policy.unsafe",
            hint=f"sudo chown {os.geteuid()} {shlex.quote(str(path))}   # if you trust what it says",
        )
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise OperatorError(
            f"others can write {path} (mode {stat.S_IMODE(found.st_mode):04o}), and it decides what may happen",
            code="policy.unsafe",
            hint=f"chmod go-w {shlex.quote(str(path))}",
        )
