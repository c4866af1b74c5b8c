"""Why one run of a plugin process ended, as values. `instance.py` decides what follows."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from paddock.cage.spec import ProcessExit
from paddock.core.errors import Invalid, PaddockError
from paddock.runtime.diagnosis import Diagnosis

EXIT_GRACE_S = 2.0  # for a process that closed its output, before it is considered stuck


class KillReason(Struct, frozen=True):
    """Something a process did that it must not survive."""

    kind: str
    reason: str
    spends_budget: bool = True


class ProcessCrashed(Struct, frozen=True):
    """The process ended or had to be killed, and may be started again."""

    diagnosis: Diagnosis
    exit: ProcessExit | None = None
    spends_budget: bool = True


class PermanentFailure(Struct, frozen=True):
    """A failure that would repeat at the next start, so it is not restarted."""

    code: str
    diagnosis: Diagnosis


class StoppedOnRequest(Struct, frozen=True):
    """The process ended because it was asked to."""


ExitReason: TypeAlias = ProcessCrashed | PermanentFailure | StoppedOnRequest


def error_summary(error: PaddockError) -> str:
    """Return the error's message with every problem that it carries: its reader sees nothing else of it."""
    problems = error.problems if isinstance(error, Invalid) else ()
    return "; ".join([error.message, *(str(problem) for problem in problems)])


# Launch errors that may not repeat: the machine was short of something, or the warden crashed.
_TRANSIENT_CODES = frozenset(
    {"cage.no_descriptors", "cage.looks_busy", "cage.launch_timeout", "cage.launch_ended", "cage.warden_lost"}
)


def exit_reason_for(error: Exception, *, ran: bool) -> PermanentFailure | ProcessCrashed:
    """Classify an error of the host around one process run: retried where that can help.

    Args:
        error: The exception.
        ran: Whether the plugin had begun to answer calls: if it ran once, it may run again.
    """
    match error:
        case PaddockError():
            code, diagnosis = error.error_code, Diagnosis(error_summary(error), error.hint, error.action)
            transient = error.retryable or code in _TRANSIENT_CODES
        case OSError():
            code, diagnosis = "internal", Diagnosis(f"it could not be started: {error}")
            transient = True
        case _:
            code, diagnosis = "internal", Diagnosis(f"the host failed: {error!r}", "this is a bug of Paddock")
            transient = False
    # Failures of the host do not spend the plugin's restart budget.
    return ProcessCrashed(diagnosis, spends_budget=False) if transient or ran else PermanentFailure(code, diagnosis)
