"""The log files of plugins' standard error: one per plugin, with one rotated file. Blocking.

A log's name is the plugin's name, or `<tenant>/<plugin>` for tenants other than the default one.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, NotRequired, TypedDict, cast

from paddock.core.ids import DEFAULT_TENANT
from paddock.core.schema_annotations import DateTime

MAX_LOG_FILE_BYTES = 1024 * 1024
_ROTATED_SUFFIX = ".1"


class LogFiles:
    """The open log files, for writing."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._sizes: dict[str, int] = {}
        self._descriptors: dict[str, int] = {}

    def append(self, name: str, data: bytes) -> None:
        """Append whole lines.

        Raises:
            OSError: the disk is full or gone; part of the data may have been written.
        """
        descriptor = self._descriptors.get(name)
        if descriptor is None or self._sizes[name] + len(data) > MAX_LOG_FILE_BYTES:
            descriptor = self._open(name, rotate=descriptor is not None)
        while data:
            written = os.write(descriptor, data)
            self._sizes[name] += written
            data = data[written:]

    def remove_plugin(self, plugin: str) -> None:
        """Remove the logs of a plugin, for all tenants.

        Raises:
            OSError: the files cannot be removed.
        """
        for name in [name for name in self._descriptors if name.rpartition("/")[2] == plugin]:
            os.close(self._descriptors.pop(name))
        remove_log_files(self.directory, plugin)

    def close(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _open(self, name: str, *, rotate: bool) -> int:
        path = log_path(self.directory, name)
        old = self._descriptors.pop(name, None)
        if old is not None:
            os.close(old)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if rotate:
            path.rename(path.with_name(path.name + _ROTATED_SUFFIX))
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        self._descriptors[name] = descriptor
        self._sizes[name] = os.fstat(descriptor).st_size
        return descriptor


def log_name(tenant: str, plugin: str) -> str:
    """Return the log name of a tenant's plugin. Neither name contains a slash."""
    return plugin if tenant == DEFAULT_TENANT else f"{tenant}/{plugin}"


def log_path(directory: Path, name: str) -> Path:
    """Return the path of a log. The name's parts passed the name rules, so it cannot escape the directory."""
    return directory / f"{name}.log"


def remove_log_files(directory: Path, plugin: str) -> None:
    """Remove the logs of a plugin, for all tenants, while no daemon writes to them.

    Raises:
        OSError: the files cannot be removed.
    """
    tenants = [folder for folder in directory.iterdir() if folder.is_dir()] if directory.is_dir() else []
    for path in (log_path(folder, plugin) for folder in (directory, *tenants)):
        for file in (path.with_name(path.name + _ROTATED_SUFFIX), path):
            file.unlink(missing_ok=True)


class LogLineJson(TypedDict):
    """A line of a plugin's log."""

    at: DateTime
    line: str
    request: NotRequired[
        Annotated[str, "The request that the plugin worked on, where the line itself does not say it."]
    ]


def one_of_lines(lines: Iterable[LogLineJson]) -> Callable[[LogLineJson], bool]:
    """Return a predicate that tells whether a line is one of `lines`."""
    known = {(line["at"], line["line"]) for line in lines}
    return lambda line: (line["at"], line["line"]) in known


def read_last_lines(directory: Path, name: str, count: int) -> list[LogLineJson]:
    """Read the last lines of a log, oldest first; works without a daemon."""
    path = log_path(directory, name)
    entries: deque[LogLineJson] = deque(maxlen=count)
    for file in (path.with_name(path.name + _ROTATED_SUFFIX), path):
        with contextlib.suppress(OSError), file.open("rb") as lines:
            for line in lines:
                with contextlib.suppress(ValueError, RecursionError):  # truncated by a full disk, or not written by us
                    entries.append(json.loads(line))
    return list(entries)


def read_request_lines(directory: Path, name: str, request: str, count: int) -> list[LogLineJson]:
    """Read the last lines of a log that belong to a request: by their mark, or by the `request_id` of their record."""
    path = log_path(directory, name)
    entries: deque[LogLineJson] = deque(maxlen=count)
    needle = request.encode()
    for file in (path.with_name(path.name + _ROTATED_SUFFIX), path):
        with contextlib.suppress(OSError), file.open("rb") as lines:
            for line in lines:
                if needle not in line:
                    continue
                with contextlib.suppress(ValueError, RecursionError):
                    entry: LogLineJson = json.loads(line)
                    if entry.get("request") == request or _names_request(str(entry.get("line", "")), request):
                        entries.append(entry)
    return list(entries)


def _names_request(line: str, request: str) -> bool:
    """Return whether a line is a record of the SDK that names this request."""
    if not line.startswith("{"):
        return False
    record = json.loads(line)
    return isinstance(record, dict) and cast("dict[str, object]", record).get("request_id") == request
