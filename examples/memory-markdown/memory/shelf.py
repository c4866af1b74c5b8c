"""One shelf is one directory of Markdown files, a memory each, named by its content.

A file is written beside its place and renamed into it, so that a reader, or the next start after a crash, sees a whole
memory or none.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MOST_FILES = 10_000
LARGEST_FILE = 128 * 1024
MOST_RESULTS = 20

_WORD = re.compile(r"\w+")


class Memory(NamedTuple):
    """One thing remembered."""

    id: str
    content: str
    context: str
    tags: tuple[str, ...]
    created: str


def shelf_name(owner: tuple[str, ...]) -> str:
    """A directory name for an owner: readable, and different for different owners whatever they are called."""
    readable = re.sub(r"[^a-z0-9]+", "-", "-".join(owner).lower()).strip("-")[:40]
    return f"{readable or 'shelf'}-{_digest(json.dumps(owner))}"


class Shelf:
    """The memories below one directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def put(self, content: str, context: str, tags: tuple[str, ...]) -> tuple[Memory, bool]:
        """Keep something; gives the memory, and whether it is new. The same content is kept once."""
        path = self._directory / f"{_digest(content)}.md"
        known = _read(path)
        if known is not None:
            return known, False
        created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        memory = Memory(path.stem, content, context, tags, created)
        self._directory.mkdir(parents=True, exist_ok=True)
        _write(path, _to_markdown(memory))
        return memory, True

    def search(self, query: str, tags: tuple[str, ...]) -> list[Memory]:
        """The memories that share most words with the query and have all the tags, best first."""
        wanted = _words(query)
        scored = [
            (len(wanted & _words(f"{memory.content} {memory.context} {' '.join(memory.tags)}")), memory)
            for memory in self._all()
            if set(tags) <= set(memory.tags)
        ]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: (pair[0], pair[1].created), reverse=True)
        return [memory for _, memory in found[:MOST_RESULTS]]

    def newest(self, count: int) -> list[Memory]:
        return sorted(self._all(), key=lambda memory: (memory.created, memory.id), reverse=True)[:count]

    def _all(self) -> Iterator[Memory]:
        try:
            paths = sorted(self._directory.glob("*.md"))[:MOST_FILES]
        except OSError:
            return
        for path in paths:
            memory = _read(path)
            if memory is not None:
                yield memory


def _to_markdown(memory: Memory) -> str:
    # Values in the head are JSON, so that nothing said in a conversation can forge another line of it.
    head = {"created": memory.created, "context": memory.context, "tags": list(memory.tags)}
    lines = ["---", *(f"{key}: {json.dumps(value)}" for key, value in head.items()), "---", ""]
    return "\n".join(lines) + memory.content + "\n"


def _read(path: Path) -> Memory | None:
    """A memory from its file. People edit these files: what cannot be understood is passed over."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            text = file.read(LARGEST_FILE)
        start, head, content = text.split("---\n", 2)
        fields = dict(line.split(": ", 1) for line in head.splitlines())
        tags = tuple(str(tag) for tag in json.loads(fields["tags"]))
        if start:
            return None
        return Memory(
            path.stem,
            content.removesuffix("\n"),
            str(json.loads(fields["context"])),
            tags,
            str(json.loads(fields["created"])),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, text: str) -> None:
    """Put a file in its place whole, and on disk before anybody is told."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with beside.open("w", encoding="utf-8", errors="replace", newline="") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]
