"""What a person was shown of a package and has not answered yet: their yes, a moment later, is to exactly that.

Without a terminal the question and the yes are two commands. The second needs no registry to find out anew what the
first one showed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from paddock.core.errors import NeedsConsent, PaddockError
from paddock.plugins.environments.clients import client_environment
from paddock.plugins.environments.describing import Facts
from paddock.plugins.environments.lock import Ecosystem
from paddock.plugins.environments.resolving import Found
from paddock.plugins.environments.rows import read_lock
from paddock.plugins.plugin_store import PluginStore
from paddock.plugins.sources import Source, SourceRecord

KEPT = timedelta(minutes=10)


@dataclass(slots=True)
class Shown:
    """What was found of one package, now or by the command before."""

    found: Found | None = None


@contextmanager
def shown_before(store: PluginStore, source: Source, environ: Mapping[str, str]) -> Generator[Shown, None, None]:
    """What the last command showed of this package. It is kept for the next one where nobody could be asked in this."""
    file = store.data / "shown" / f"{_key(source, environ)}.json"
    now = store.clock.now()
    shown = Shown(_read(file, now))
    try:
        yield shown
    except NeedsConsent as error:
        if error.error_code == "consent_refused" or shown.found is None:
            file.unlink(missing_ok=True)
        else:
            _keep(file, shown.found, now)
        raise
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


def _key(source: Source, environ: Mapping[str, str]) -> str:
    """Another source, another Python, or other settings of pip and npm may find something else."""
    asked = [SourceRecord(source).to_value(), sys.version, sorted(client_environment(environ).items())]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


def _read(file: Path, now: datetime) -> Found | None:
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8"))
        age = now - datetime.fromisoformat(value["at"])
        if not timedelta(0) <= age <= KEPT:
            return None
        facts = Facts(**value["facts"] | {"warnings": tuple(value["facts"]["warnings"])})
        lock = read_lock(Ecosystem(value["ecosystem"]), value["lock"])
        return Found(facts, tuple(value["programs"]), lock, tuple(value["notes"]))
    except (OSError, ValueError, KeyError, TypeError, PaddockError):
        return None  # nothing was shown, or another version of Paddock showed it


def _keep(file: Path, found: Found, now: datetime) -> None:
    value = {
        "at": now.isoformat(),
        "facts": asdict(found.facts),
        "programs": found.programs,
        "ecosystem": found.lock.ecosystem.value,
        "lock": found.lock.text,
        "notes": found.notes,
    }
    with suppress(OSError):  # a full disk: it is found out once more
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in file.parent.iterdir():
            if _read(other, now) is None:
                other.unlink(missing_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(value), encoding="utf-8")
        new.replace(file)
