"""How one life of a plugin process ended, as a value; what follows from it is decided in `keeper.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from paddock.cage.spec import Exit
from paddock.core.errors import PaddockError
from paddock.plugins.supervision.diagnosis import Diagnosis


@dataclass(frozen=True, slots=True)
class Crashed:
    """It ended, or had to be ended, and may be started again."""

    diagnosis: Diagnosis
    exit: Exit | None = None
    spends_budget: bool = True


@dataclass(frozen=True, slots=True)
class GaveUp:
    """Starting it again would end the same way."""

    code: str
    diagnosis: Diagnosis


@dataclass(frozen=True, slots=True)
class Stopped:
    """It ended because it was asked to."""


Ending: TypeAlias = Crashed | GaveUp | Stopped


def ending_of(error: PaddockError) -> GaveUp | Crashed:
    """What an error before or at the launch means: tried again where that can help."""
    diagnosis = Diagnosis(error.message, error.hint)
    return Crashed(diagnosis) if error.retryable else GaveUp(error.error_code, diagnosis)
