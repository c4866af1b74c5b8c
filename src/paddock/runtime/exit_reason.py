"""Why and how one life of a plugin process ended, as values; what follows is decided in `keeper.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from paddock.cage.spec import ProcessExit
from paddock.core.errors import Invalid, PaddockError
from paddock.runtime.diagnosis import Diagnosis

EXIT_GRACE_S = 2.0  # seconds for a process that closed its output, before it is taken for stuck


@dataclass(frozen=True, slots=True)
class KillReason:
    """Something a process did that it must not survive."""

    kind: str
    reason: str
    spends_budget: bool = True


@dataclass(frozen=True, slots=True)
class ProcessCrashed:
    """It ended, or had to be ended, and may be started again."""

    diagnosis: Diagnosis
    exit: ProcessExit | None = None
    spends_budget: bool = True


@dataclass(frozen=True, slots=True)
class PermanentFailure:
    """Starting it again would end the same way."""

    code: str
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class StoppedOnRequest:
    """It ended because it was asked to."""


ExitReason: TypeAlias = ProcessCrashed | PermanentFailure | StoppedOnRequest


def error_summary(error: PaddockError) -> str:
    """What is wrong, with every mistake that the error carries: whoever is told why has nothing else."""
    found = error.problems if isinstance(error, Invalid) else ()
    return "; ".join([error.message, *(str(problem) for problem in found)])


# What a cage was refused for and may not be the next time: the machine was short of something, or the warden fell.
_TRANSIENT_CODES = frozenset(
    {"cage.no_descriptors", "cage.looks_busy", "cage.launch_timeout", "cage.launch_ended", "cage.warden_lost"}
)


def exit_reason_for(error: Exception, *, ran: bool) -> PermanentFailure | ProcessCrashed:
    """What an error of the host around one life means: tried again where that can help.

    Args:
        error: What was raised.
        ran: Whether the plugin had begun to answer calls: what ran once may run again.
    """
    match error:
        case PaddockError():
            code, diagnosis = error.error_code, Diagnosis(error_summary(error), error.hint)
            passing = error.retryable or code in _TRANSIENT_CODES
        case OSError():
            code, diagnosis = "internal", Diagnosis(f"it could not be started: {error}")
            passing = True
        case _:
            code, diagnosis = "internal", Diagnosis(f"the host failed at it: {error!r}", "this is a bug of the host")
            passing = False
    # Trouble of the host's own costs a plugin none of its restarts.
    return ProcessCrashed(diagnosis, spends_budget=False) if passing or ran else PermanentFailure(code, diagnosis)
