"""Looking for secrets, however they are written, in everything that a host leaves behind or shows."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
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
    return [
        (value, how, where)
        for value in values
        for how, needles in written(value).items()
        for where, hay in places.items()
        if any(needle in hay for needle in needles)
    ]


def files_below(folder: Path) -> dict[str, bytes]:
    """Every file's content, with its name."""
    return {str(file): bytes(file) + file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def processes(root: int) -> dict[str, bytes]:
    """The command lines and environments of a process and of all that it started, and theirs."""
    found: dict[str, bytes] = {}
    for pid in (root, *_descendants(root)):
        for name in ("cmdline", "environ"):
            try:
                found[f"{pid}/{name}"] = Path(f"/proc/{pid}/{name}").read_bytes()
            except OSError:
                continue  # it ended
    return found


def _descendants(root: int) -> Iterator[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    known = {root}
    while more := {pid for pid, parent in parents.items() if parent in known and pid not in known}:
        known |= more
        yield from more
