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
from paddock.plugins.environments.lock import Ecosystem
from paddock.plugins.environments.metadata import PackageMetadata
from paddock.plugins.environments.resolve import PackageResolution
from paddock.plugins.environments.runner import client_variables
from paddock.plugins.environments.store import parse_lock
from paddock.plugins.package.source import PackageSource, SourceRecord
from paddock.plugins.store.store import PluginStore

CACHE_TTL = timedelta(minutes=10)


@dataclass(slots=True)
class CachedResolution:
    """What was found of one package, now or by the command before."""

    resolution: PackageResolution | None = None


@contextmanager
def open_cached_resolution(
    store: PluginStore, source: PackageSource, environ: Mapping[str, str]
) -> Generator[CachedResolution, None, None]:
    """What the last command showed of this package. It is kept for the next one where nobody could be asked in this."""
    file = store.data / "shown" / f"{_cache_key(source, environ)}.json"
    now = store.clock.now()
    shown = CachedResolution(_load(file, now))
    try:
        yield shown
    except NeedsConsent as error:
        if error.error_code == "consent_refused" or shown.resolution is None:
            file.unlink(missing_ok=True)
        else:
            _save(file, shown.resolution, now)
        raise
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


def _cache_key(source: PackageSource, environ: Mapping[str, str]) -> str:
    """Another source, another Python, or other settings of pip and npm may find something else."""
    asked = [SourceRecord(source).to_value(), sys.version, sorted(client_variables(environ).items())]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


def _load(file: Path, now: datetime) -> PackageResolution | None:
    try:
        value: Any = json.loads(file.read_text(encoding="utf-8"))
        age = now - datetime.fromisoformat(value["at"])
        if not timedelta(0) <= age <= CACHE_TTL:
            return None
        facts = PackageMetadata(**value["facts"] | {"warnings": tuple(value["facts"]["warnings"])})
        lock = parse_lock(Ecosystem(value["ecosystem"]), value["lock"])
        return PackageResolution(facts, tuple(value["programs"]), lock, tuple(value["notes"]))
    except (OSError, ValueError, KeyError, TypeError, PaddockError):
        return None  # nothing was shown, or another version of Paddock showed it


def _save(file: Path, found: PackageResolution, now: datetime) -> None:
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
            if _load(other, now) is None:
                other.unlink(missing_ok=True)
        new = file.with_suffix(".new")
        new.write_text(json.dumps(value), encoding="utf-8")
        new.replace(file)
