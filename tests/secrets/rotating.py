"""A process that rotates the key of a safe, and dies at a point that it is told: `rotating.py STORE STATE [N]`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from paddock.core.clock import SystemRandom
from paddock.core.events.event import Event
from paddock.core.ids import PrincipalId, Tenant
from paddock.secrets.rotation import rotate
from paddock.secrets.wrapping_keys import build_wrapping_keys
from paddock.store.audited_transaction import AuditedTransaction
from paddock.store.database import open_direct


class Mortal:
    """A database of a process that ends without a word before or after its so-many-th write."""

    def __init__(self, database: Any, lives: int) -> None:
        self._database = database
        self._lives = lives

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def write(self, unit: Any) -> Any:
        self._step()
        answer = self._database.write(unit)
        self._step()
        return answer

    def _step(self) -> None:
        self._lives -= 1
        if self._lives == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class Nowhere:
    def publish(self, event: Event) -> None:
        """Nobody listens."""


def turn(store: Path, state: Path, lives: int) -> None:
    random = SystemRandom()
    keys = build_wrapping_keys({}, state, random, preferred="file")
    with open_direct(store) as database:
        rotate(
            Mortal(database, lives),  # type: ignore[arg-type]
            keys,
            random,
            lambda tx: AuditedTransaction(
                tx, Tenant("acme"), PrincipalId("local:ada"), "2026-03-01T12:00:00+00:00", Nowhere()
            ),
        )


if __name__ == "__main__":
    turn(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
