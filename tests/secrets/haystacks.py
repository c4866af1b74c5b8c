"""Looking for secrets, however they are written, in everything that a host leaves behind or shows."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote


def written(value: str) -> dict[str, tuple[bytes, ...]]:
    """A value in the encodings that something could have been written in."""
    raw = value.encode()
    # Inside of a longer text base64 falls in one of three ways; what is cut off depends on the neighbours.
    shifted = tuple(base64.b64encode(b"\0" * by + raw)[4 if by else 0 :].rstrip(b"=")[:-2] for by in range(3))
    return {
        "as it is": (raw,),
        "base64": shifted,
        "base32": (base64.b32encode(raw).rstrip(b"=")[:-1],),
        "hexadecimal": (raw.hex().encode(), raw.hex().upper().encode()),
        "percent": (quote(value, safe="").encode(),),
        "JSON": (json.dumps(value)[1:-1].encode(), json.dumps(value, ensure_ascii=False)[1:-1].encode()),
        "UTF-16": (value.encode("utf-16-le"), value.encode("utf-16-be")),
        "backwards": (value[::-1].encode(),),
    }


def seen(values: Iterable[str], places: Mapping[str, bytes]) -> list[tuple[str, str, str]]:
    """Each value that stands somewhere: which, how it is written, and where."""
    # Much is the same in many places, and most values are nowhere.
    everything = b"\n".join(set(places.values()))
    found = [(value, how, needle) for value in values for needle, how in _needles(value) if needle in everything]
    return [(value, how, where) for value, how, needle in found for where, hay in places.items() if needle in hay]


def _needles(value: str) -> Iterable[tuple[bytes, str]]:
    """All ways to write it, each once."""
    ways: dict[bytes, str] = {}
    for how, needles in written(value).items():
        for needle in needles:
            ways.setdefault(needle, how)
    return ways.items()


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file's content, with its name."""
    found: dict[str, bytes] = {}
    for place, _, names in os.walk(folder):
        for file in (Path(place, name) for name in names):
            with suppress(FileNotFoundError):  # a database server drops databases of other tests meanwhile
                if file.is_file():
                    found[str(file)] = bytes(file) + file.read_bytes()
    return found


def processes(root: int | None = None) -> dict[str, bytes]:
    """The command lines and environments of a process and of all that it started, and theirs; or of every process."""
    found: dict[str, bytes] = {}
    pids = _parents() if root is None else (root, *_descendants(root))
    for pid in pids:
        for name in ("cmdline", "environ"):
            try:
                found[f"{pid}/{name}"] = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue  # it ended, or is somebody else's
    return found


def _descendants(root: int) -> Iterator[int]:
    parents = _parents()
    known = {root}
    while more := {pid for pid, parent in parents.items() if parent in known and pid not in known}:
        known |= more
        yield from more


def _parents() -> dict[int, int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    return parents
