"""The folder of custom rule files: listing, reading, writing and removing one file at a time."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import Final

from msgspec import Struct

from paddock.config.directories import Directories, refuse_unsafe_directory
from paddock.config.settings import PolicySettings
from paddock.core.errors import Conflict, HostError, NotFound, OperatorError
from paddock.core.printable import printable
from paddock.policy.cases import CASES_FILE
from paddock.policy.load import MAX_RULE_FILES, custom_rules_folder, has_own_cases, read_rule_file, read_rule_folder
from paddock.policy.rules import RuleFile
from paddock.store.filesystem import replace_private_file, sync_directory

RULE_SUFFIX: Final = ".cedar"
MAX_EDITED_CHARS: Final = 256_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\.cedar")


class StoredRuleFile(Struct, frozen=True):
    """A rule file: its name, its text, and the digest that names exactly this text."""

    name: str
    text: str
    digest: str

    @classmethod
    def of(cls, name: str, text: str) -> StoredRuleFile:
        """Return the file of a text."""
        return cls(name, text, text_digest(text))


def text_digest(text: str) -> str:
    """Return the digest that names a text."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def validate_file_name(name: str) -> str:
    """Return the name of a rule file if it is valid; `.cedar` is added where it is missing.

    Raises:
        OperatorError: it is not valid.
    """
    full_name = name if name.endswith(RULE_SUFFIX) else f"{name}{RULE_SUFFIX}"
    if not _NAME.fullmatch(full_name):
        raise OperatorError(
            f"no rule file can be called {printable(name, 80)!r}",
            code="policy.file_name",
            hint="use letters, digits and . _ -, as in night-shift.cedar",
        )
    return full_name


class RuleFolder:
    """The folder of custom rules. Blocking.

    Args:
        directories, settings: Locate the folder.
    """

    def __init__(self, directories: Directories, settings: PolicySettings) -> None:
        self._directories = directories
        self._settings = settings

    def list_files(self) -> list[StoredRuleFile]:
        """Return the rule files, by name; none if there is no folder.

        Raises:
            Invalid, OperatorError: a file cannot be read, or others can write it; see `read_rule_folder`.
        """
        folder = custom_rules_folder(self._directories, self._settings)
        if folder is None:
            return []
        refuse_unsafe_directory(folder)
        files = read_rule_folder(folder, guarded=True)
        return [StoredRuleFile.of(Path(file.origin).name, file.text) for file in files]

    def read_cases(self) -> StoredRuleFile | None:
        """Return the operator's own test cases; None if there are none.

        Raises:
            OperatorError: it is a link or a folder, or see `list_files`.
        """
        path = self._path(CASES_FILE)
        if not has_own_cases(path):
            return None
        refuse_unsafe_directory(path.parent)
        return StoredRuleFile.of(CASES_FILE, read_rule_file(path, guarded=True).decode("utf-8", "replace"))

    def write_cases(self, text: str, based_on: str | None) -> None:
        """Write the operator's own test cases, or remove them if the text is empty; raises as `write` does."""
        self.require_cases_unchanged(based_on)
        path = self._path(CASES_FILE)
        try:
            if text:
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                replace_private_file(path, text.encode())
            elif based_on is not None:
                path.unlink()
                sync_directory(path.parent)
        except OSError as error:
            raise _write_error(path, error) from error

    def require_cases_unchanged(self, based_on: str | None) -> None:
        """Raise Conflict if the operator's own test cases are not those of this digest any more."""
        current = self.read_cases()
        if (current.digest if current else None) != based_on:
            raise _changed_error(CASES_FILE)

    def rule_file(self, name: str, text: str) -> RuleFile:
        """Return a text as the rule file of a name, without writing it."""
        return RuleFile(str(self._path(name)), text)

    def write(self, name: str, text: str, based_on: str | None) -> StoredRuleFile:
        """Write a file, if it still is as its writer saw it.

        Args:
            name: The file.
            text: Its new text.
            based_on: The digest of the text that was changed; None for a new file.

        Raises:
            Conflict: `policy.file_changed`, it has another text now, or exists already.
            OperatorError: it is a link, or there are too many files.
            HostError: it cannot be written, and is as it was.
        """
        path = self._require_unchanged(name, based_on)
        if based_on is None and len(self.list_files()) >= MAX_RULE_FILES:
            raise OperatorError(f"there are {MAX_RULE_FILES:,} rule files already", code="policy.too_large")
        try:
            if not path.parent.is_dir():
                path.parent.mkdir(mode=0o700, parents=True)
            replace_private_file(path, text.encode())
        except OSError as error:
            raise _write_error(path, error) from error
        return StoredRuleFile.of(name, text)

    def remove(self, name: str, based_on: str) -> None:
        """Remove a file, if it still is as its remover saw it; raises as `write` does."""
        path = self._require_unchanged(name, based_on)
        try:
            path.unlink()
            sync_directory(path.parent)
        except OSError as error:
            raise _write_error(path, error) from error

    def require_unchanged(self, name: str, based_on: str | None) -> None:
        """Raise the errors of `write` that are known before it: the file changed, or is a link."""
        self._require_unchanged(name, based_on)

    def _require_unchanged(self, name: str, based_on: str | None) -> Path:
        path = self._path(name)
        try:
            if stat.S_ISLNK(os.lstat(path).st_mode):
                raise OperatorError(
                    f"{name} is a link", code="policy.file_name", hint="edit the file that it points to"
                )
        except FileNotFoundError:
            pass
        current = next((file.digest for file in self.list_files() if file.name == name), None)
        if current == based_on:
            return path
        if current is None:
            raise NotFound(f"there is no rule file {printable(name, 80)}", code="policy.no_file")
        if based_on is None:
            raise Conflict(f"there is a rule file {name} already", code="policy.file_changed", hint="edit that one")
        raise _changed_error(name)

    def _path(self, name: str) -> Path:
        folder = custom_rules_folder(self._directories, self._settings)
        return (folder or self._directories.config / "policies") / name


def _changed_error(name: str) -> Conflict:
    return Conflict(
        f"{name} was changed by another person in the meantime",
        code="policy.file_changed",
        hint="load it again, and make your change there",
    )


def _write_error(path: Path, error: OSError) -> HostError:
    return HostError(
        f"cannot write {path.name}: {error.strerror}",
        code="policy.not_written",
        hint="the rules are as they were; make the folder of the rules writable for Paddock, or free some space",
    )
