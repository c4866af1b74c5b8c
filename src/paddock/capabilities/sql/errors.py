"""Mapping of SQLite's errors to the host's own, worded for the author of the statement."""

# apsw's type stubs name a class that Python 3.11 does not have yet.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import re
from pathlib import Path

import apsw

from paddock.capabilities.sql.authorizer import SqlAuthorizer
from paddock.capabilities.sql.functions import TextTooLong
from paddock.core.errors import Busy, CallerError, Conflict, Denied, HostError, PaddockError, StoreUnavailable
from paddock.core.printable import printable
from paddock.store.filesystem import OUT_OF_SPACE_ERRNOS

MAX_REDACTED_CHARS = 500

_TOKENS = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?(?:\*/|\Z) )
  | (?P<text> [xX]?'(?:[^']|'')*(?:'|\Z) )
  | (?P<name> "(?:[^"]|"")*(?:"|\Z) | `(?:[^`]|``)*(?:`|\Z) | \[[^\]]*(?:\]|\Z) )
  | (?P<word> [^\W\d]\w* )
  | (?P<number> \d[\w.]* )
    """,
    re.VERBOSE | re.DOTALL,
)
_PLAIN_NAME = re.compile(r".\w{1,64}.\Z")


def redact_sql(sql: str) -> str:
    """Return the statement with literals replaced by `?`, without comments, shortened for storage."""
    return printable(" ".join(_TOKENS.sub(_redact_token, sql[: 8 * MAX_REDACTED_CHARS]).split()), MAX_REDACTED_CHARS)


def _redact_token(token: re.Match[str]) -> str:
    match token.lastgroup:
        case "comment":
            return " "
        case "word":
            return token[0]
        case "name":
            # Some authors write text in double quotes; only what looks like a name is kept.
            return token[0] if _PLAIN_NAME.match(token[0]) else "?"
        case _:
            return "?"


_MAX_MESSAGE_CHARS = 500
_MIN_FREE_BYTES = 4 << 20  # a disk with less than this counts as full

# Messages about what SQLite itself forbids, and about names that are not the plugin's: SQLite's internals, other
# schemas, and the full names of other plugins' tables. The schema of the plugin's own tables is called main.
_FORBIDDEN_MESSAGE = re.compile(
    r"""may\ not\ be\ (?:modified|dropped|altered|indexed)
      | reserved\ for\ internal\ use | unknown\ database | unsafe\ use\ of | is\ prohibited | not\ authorized
      | too\ many\ attached | qualified\ table\ names\ are\ not\ allowed | cannot\ reference\ objects\ in\ database
      | no\ such\ table:\ (?:main\.)?(?:plugin|sqlite)_
      | no\ such\ table:\ (?!main\.)[^.]+\. | no\ such\ module | cannot\ (?:ATTACH|DETACH|VACUUM)
      | trigger\ \S+\ cannot\ reference
    """,
    re.VERBOSE | re.IGNORECASE,
)


MISSING_TABLE_HINT = "run CREATE TABLE IF NOT EXISTS first, in the same tool: one that only reads may do that too"
_MISSING_TABLE = re.compile(r"(?:SQLError: )?no such table: ")


def denied_statement_error(sql: str, reason: str) -> Denied:
    """Build the error for a statement that reaches beyond the plugin's own tables."""
    return Denied(
        f"the statement is not allowed: {printable(reason, 200)}",
        code="storage_access_denied",
        hint="a plugin has its own tables, one statement a call; see the reference of storage for what it may use",
        details={"sql": redact_sql(sql)},
    )


def statement_error(error: Exception, sql: str, authorizer: SqlAuthorizer, path: Path) -> PaddockError:
    """Map an exception raised while a plugin's statement ran."""
    if isinstance(error, PaddockError):
        return error
    if authorizer.interrupt_reason:
        return CallerError(
            f"the statement was stopped: {authorizer.interrupt_reason}", code="storage.too_slow", hint=_SPLIT_HINT
        )
    if authorizer.denied_action and isinstance(error, apsw.AuthError | apsw.SQLError):
        return denied_statement_error(sql, authorizer.denied_action)
    message = printable(str(error), _MAX_MESSAGE_CHARS)
    match error:
        case apsw.AuthError():
            return denied_statement_error(sql, message)
        case apsw.SQLError() if _FORBIDDEN_MESSAGE.search(message):
            return denied_statement_error(sql, message)
        case KeyError():
            return CallerError(f"no value is given for the parameter {message}", code="storage.sql")
        case apsw.SQLError() | apsw.MismatchError() | apsw.RangeError() | apsw.BindingsError() | apsw.AbortError():
            return CallerError(
                f"SQLite says: {message}",
                code="storage.sql",
                hint=MISSING_TABLE_HINT if _MISSING_TABLE.match(message) else "",
                details={"sql": redact_sql(sql)},
            )
        case apsw.ConstraintError():
            return Conflict(f"SQLite says: {message}", code="storage.constraint")
        case apsw.TooBigError() | apsw.NoMemError() | MemoryError():
            return CallerError("a value or the statement is too large", code="storage.too_big", hint=_SPLIT_HINT)
        case TextTooLong():
            return CallerError(message, code="storage.too_big", hint=_SPLIT_HINT)
        case apsw.CorruptError() if getattr(error, "extendedresult", 0) == apsw.SQLITE_CORRUPT_VTAB:
            return CallerError(
                f"a full-text index does not fit its table: {message}",
                code="storage.sql",
                hint="INSERT INTO ft(ft) VALUES ('rebuild')",
            )
        case UnicodeDecodeError():
            return CallerError(
                "a text in the answer is not valid UTF-8", code="storage.sql", hint="read it with CAST(x AS BLOB)"
            )
        case apsw.Error():
            return file_error(error, path)
        case _:
            return HostError(f"a plugin's storage failed: {type(error).__name__}: {message}", code="storage.failed")


_SPLIT_HINT = "do it in smaller steps: LIMIT, an index, several statements in one transaction"


def file_error(error: apsw.Error, path: Path) -> PaddockError:
    """Map an error of the file rather than the statement. The file's path is not disclosed."""
    match error:
        case apsw.FullError() if not _disk_is_full(path):
            return CallerError(
                "the plugin's storage is full", code="storage.full", hint="delete rows that are not needed any more"
            )
        case apsw.FullError():
            return _out_of_space_error()
        case apsw.BusyError() | apsw.LockedError():
            return Busy("another process uses the plugin's storage", code="storage.busy", hint="try again in a moment")
        case apsw.CorruptError() | apsw.NotADBError():
            return HostError(
                f"the plugin's storage file {path.name} is damaged",
                code="storage.corrupt",
                hint="nothing was changed; the operator can restore the file from a backup",
            )
        case apsw.IOError() | apsw.CantOpenError() if _disk_is_full(path):
            return _out_of_space_error()
        case _:
            return StoreUnavailable(
                f"the plugin's storage cannot be used: {printable(str(error), 200)}",
                code="storage.unavailable",
                hint="nothing was changed; the operator should look at the disk and its permissions",
            )


def file_access_error(error: OSError) -> PaddockError:
    """Map the error of a file that cannot be created or opened."""
    if error.errno in OUT_OF_SPACE_ERRNOS:
        return _out_of_space_error()
    return StoreUnavailable(
        f"the plugin's storage cannot be opened: {error.strerror}",
        code="storage.unavailable",
        hint="the operator should look at the permissions of the storage folder",
    )


def _out_of_space_error() -> StoreUnavailable:
    return StoreUnavailable(
        "there is no room left on the disk of the plugin's storage",
        code="storage.disk_full",
        hint="nothing was changed; try again when the operator has freed some space",
    )


def _disk_is_full(path: Path) -> bool:
    try:
        space = os.statvfs(path.parent)
    except OSError:
        return False
    return space.f_bavail * space.f_frsize < _MIN_FREE_BYTES
