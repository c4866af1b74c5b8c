"""Caches the resolution of a registry package that a person was shown and has not answered yet.

Without a terminal the question and the consent are two commands. The second one needs no registry, and consents to
exactly what the first one showed.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from paddock.core.errors import NeedsConsent, PaddockError
from paddock.plugins.environments.lock import Ecosystem
from paddock.plugins.environments.metadata import PackageMetadata
from paddock.plugins.environments.package_client import client_variables
from paddock.plugins.environments.resolve import PackageResolution
from paddock.plugins.environments.store import parse_lock
from paddock.plugins.package.source import PackageSource, SourceRecord
from paddock.plugins.store.store import PluginStore

CACHE_TTL = timedelta(minutes=10)


class InstallStopped(Exception):
    """The install was stopped before a person consented."""


class CachedResolution(Struct):
    """The resolution of one package, found now or by the previous command."""

    resolution: PackageResolution | None = None


@contextmanager
def open_cached_resolution(
    store: PluginStore, source: PackageSource, environ: Mapping[str, str]
) -> Generator[CachedResolution, None, None]:
    """Load the resolution that the previous command showed. It is kept for the next one if consent is not given now."""
    file = store.data / "shown" / f"{_cache_key(source, environ)}.json"
    now = store.clock.now()
    cached = CachedResolution(_load(file, now))
    try:
        yield cached
    except (InstallStopped, NeedsConsent):
        if cached.resolution is not None:
            _save(file, cached.resolution, now)
        raise
    except BaseException:
        file.unlink(missing_ok=True)
        raise
    file.unlink(missing_ok=True)


def _cache_key(source: PackageSource, environ: Mapping[str, str]) -> str:
    """Hash the source, the Python version and the settings of pip and npm: each may change the resolution."""
    inputs = [SourceRecord(source).to_value(), sys.version, sorted(client_variables(environ).items())]
    return hashlib.sha256(json.dumps(inputs).encode()).hexdigest()[:32]


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
        return None  # nothing is cached, or by another version of Paddock


def _save(file: Path, resolution: PackageResolution, now: datetime) -> None:
    value = {
        "at": now.isoformat(),
        "facts": asdict(resolution.facts),
        "programs": resolution.programs,
        "ecosystem": resolution.lock.ecosystem.value,
        "lock": resolution.lock.text,
        "notes": resolution.notes,
    }
    with suppress(OSError):  # e.g. a full disk: it is resolved again
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        for other in file.parent.iterdir():
            if _load(other, now) is None:
                other.unlink(missing_ok=True)
        temporary = file.with_suffix(".new")
        temporary.write_text(json.dumps(value), encoding="utf-8")
        temporary.replace(file)
