"""Every error Paddock raises, as one tree that says whose fault it is.

PaddockError
├── OperatorError        the person running the host wrote something we cannot accept
│   ├── Invalid          a document with mistakes; carries every one of them
│   └── Unreachable      what they named is well-formed and cannot be had right now
├── PluginError          one plugin misbehaved; the host carries on
│   ├── Modified         its files are not the ones a person consented to
│   ├── Unavailable      it does not run right now
│   │   └── Failed       nor will it before a person does something about it
│   ├── TimedOut         it did not answer in time
│   └── NoEffect         it failed, and says that nothing happened
├── CallerError          the request is wrong
│   ├── NotFound         nothing goes by that name
│   ├── Conflict         it clashes with what is already there
│   ├── Busy             too much at once; the same request may pass later
│   ├── NeedsConsent     a person has to consent first
│   ├── NeedsApproval    the call waits for a person's approval
│   └── Denied           policy denies it, and says why
└── HostError            ours: stop and say so
    └── StoreUnavailable the database cannot be opened, read or written

What an error looks like to the outside (exit code, JSON-RPC, HTTP, MCP, …) is decided in `error_formats.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from types import MappingProxyType
from typing import Any, ClassVar, NotRequired, Self, TypedDict

from msgspec import Struct

from paddock.core.action import Action, ActionJson, with_sentence
from paddock.core.schema_annotations import NonNegativeInt


class Category(StrEnum):
    """The kind of error; every table of `error_formats.py` is keyed by it."""

    VALIDATION = "validation"
    NOT_FOUND = "not_found"
    AUTHORIZATION = "authorization"
    POLICY = "policy"
    CONFLICT = "conflict"
    TRANSIENT = "transient"
    DEPENDENCY = "dependency"
    PLUGIN = "plugin"
    TIMEOUT = "timeout"
    INTERNAL = "internal"


class MistakeJson(TypedDict):
    """One mistake in what was sent: where it is, what is wrong, and what would be right."""

    path: str
    message: str
    code: str
    hint: NotRequired[str]
    line: NotRequired[NonNegativeInt]
    action: NotRequired[ActionJson]


class Problem(Struct, frozen=True):
    """One mistake in a document: where it is, what is wrong, what would be right, and what to do about it."""

    path: str
    message: str
    hint: str = ""
    code: str = "invalid"
    line: int | None = None
    action: Action | None = None

    def __str__(self) -> str:
        where = f"{self.path or '(document)'}"
        if self.line is not None:
            where += f" (line {self.line})"
        remedy = with_sentence(self.hint, self.action) if self.action else self.hint
        return f"{where}: {self.message}" + (f" — {remedy}" if remedy else "")

    def to_dict(self) -> MistakeJson:
        """The problem as an item of `errors[]` in JSON output and problem bodies."""
        data: MistakeJson = {"path": self.path, "message": self.message, "code": self.code}
        if self.hint:
            data["hint"] = self.hint
        if self.line is not None:
            data["line"] = self.line
        if self.action is not None:
            data["action"] = self.action.to_json()
        return data


class PaddockError(Exception):
    """The root: a stable code for machines, a sentence for people, and what to do next.

    Args:
        message: One sentence, without the hint.
        code: Stable and dotted (`package.unsafe_path`); the class's own when left out.
        hint: Why it is so, or what the reader can change. Commands of Paddock are an `action` instead.
        action: What to do in Paddock; the command line and the console render it.
        details: Data for machines. Never a secret: details are shown and recorded.
        retryable: Whether the same request may simply be repeated; the class's own when left out.
    """

    code: ClassVar[str] = "internal"
    category: ClassVar[Category] = Category.INTERNAL
    retryable: bool = False

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        hint: str = "",
        action: Action | None = None,
        details: Mapping[str, Any] | None = None,
        retryable: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.action = action
        self.error_code = code or type(self).code
        self.details: Mapping[str, Any] = MappingProxyType(dict(details or {}))
        if retryable is not None:
            self.retryable = retryable

    def with_remedy(
        self,
        *,
        hint: str,
        action: Action | None = None,
        details: Mapping[str, Any] | None = None,
        retryable: bool | None = None,
    ) -> Self:
        """A copy that tells the reader to do something else about it; `details` are added to its own."""
        copy = type(self).__new__(type(self), *self.args)  # skips `__init__`, whose arguments vary by class
        vars(copy).update(
            vars(self),
            hint=hint,
            action=action,
            details=MappingProxyType({**self.details, **(details or {})}),
            retryable=self.retryable if retryable is None else retryable,
        )
        return copy

    def as_problem(self, path: str = "") -> Problem:
        """The error as a problem of the value at a path."""
        return Problem(path, self.message, self.hint, self.error_code, action=self.action)


class OperatorError(PaddockError):
    """The person running the host wrote something we cannot accept."""

    code = "operator_error"
    category = Category.VALIDATION


class Invalid(OperatorError):
    """A document with mistakes. Reports all of them at once, each with its path."""

    code = "invalid"

    def __init__(
        self,
        message: str,
        problems: Sequence[Problem],
        *,
        code: str | None = None,
        hint: str = "",
        action: Action | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint, action=action, details=details)
        self.problems = tuple(problems)


class Unreachable(OperatorError):
    """Something the person named cannot be reached or used right now: a host, a repository, a directory."""

    code = "unreachable"
    category = Category.DEPENDENCY


class PluginError(PaddockError):
    """One plugin misbehaved or cannot be used; the host carries on."""

    code = "plugin_error"
    category = Category.PLUGIN


class Modified(PluginError):
    """The plugin's files are not the ones a person consented to, so it never loads."""

    code = "plugin.modified"


class Unavailable(PluginError):
    """The plugin does not run right now; the hint says why and what would help."""

    code = "plugin.unavailable"
    retryable = True


class Failed(Unavailable):
    """The plugin does not run, and is not started again before a person does something about it."""

    code = "plugin.failed"
    retryable = False


class TimedOut(PluginError):
    """The plugin did not answer in time."""

    code = "plugin.timeout"
    category = Category.TIMEOUT
    retryable = True


class NoEffect(PluginError):
    """It failed and nothing happened. For functions of an application, whose other errors may come after an effect."""


class CallerError(PaddockError):
    """The request is wrong."""

    code = "bad_request"
    category = Category.VALIDATION


class NotFound(CallerError):
    """There is nothing of that name."""

    code = "not_found"
    category = Category.NOT_FOUND


class Conflict(CallerError):
    """The request conflicts with the present state."""

    code = "conflict"
    category = Category.CONFLICT


class Busy(CallerError):
    """Too much is in progress already; the same request may succeed later."""

    code = "resource_busy"
    category = Category.TRANSIENT
    retryable = True


class NeedsConsent(CallerError):
    """A person has to consent first; nothing has changed."""

    code = "consent_required"
    category = Category.AUTHORIZATION


class NeedsApproval(CallerError):
    """The call waits for a person's approval, and runs once it has it; `details` say which, and what would be done."""

    code = "approval_required"
    category = Category.AUTHORIZATION


class Denied(CallerError):
    """Policy denies it, and says why."""

    code = "denied"
    category = Category.POLICY


class HostError(PaddockError):
    """Ours: the host cannot do its work. Stop and say so."""

    code = "host_error"
    category = Category.INTERNAL


class StoreUnavailable(HostError):
    """The database cannot be opened, read or written right now."""

    code = "store.unavailable"
    category = Category.DEPENDENCY
    retryable = True


def clear_tracebacks(error: BaseException) -> None:
    """Drop the tracebacks of an error and of its causes.

    The error is kept for a while, and its frames would keep their locals, such as a call's arguments.
    """
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        current = pending.pop()
        if current is not None and id(current) not in seen:
            seen.add(id(current))
            current.__traceback__ = None
            pending += (current.__cause__, current.__context__)
