"""Paths in a plugin's settings that its cage would keep in a throw-away place, where what is written is lost. Pure.

A cage has two file systems of its own that a plugin can write to, and both end with the cage. Any other path that is
not granted for writing is read-only or does not exist, so that a plugin which writes there fails and says so.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.mount_layout import is_below
from paddock.cage.plan.named_places import SettingText, nested_strings, setting_texts
from paddock.cage.plan.programs import resolve_links
from paddock.core.printable import printable
from paddock.manifest.model import Manifest

THROWAWAY_PLACES = ("/tmp", "/dev/shm")  # noqa: S108 inside the cage

_MAX_PATH_CHARS = 4096
_SHOWN_CHARS = 400  # of a path, to a person
_ASSIGNMENT = re.compile(r"(?:--?[\w.-]+|[A-Za-z_]\w*)=(.*)", re.DOTALL)
_SHORT_OPTION = re.compile(r"-\w(/.*)", re.DOTALL)
_URL_WITHOUT_HOST = re.compile(
    r"(?!config:|project:)[A-Za-z][\w+.-]*:(?://(?=/)|(?!//))(/[^?#]*)(?:[?#].*)?", re.DOTALL
)
_LIST_SEPARATOR = re.compile(r"[:,;]")
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
# What a setting with such a word in its name holds may be lost.
_SCRATCH_WORDS = frozenset({"cache", "cachedir", "scratch", "temp", "tempdir", "temporary", "tmp", "tmpdir"})


@dataclass(frozen=True, slots=True)
class LostPath:
    """A path that the settings name, and that leads to a throw-away place of the cage."""

    where: str  # as in "its variable STORE"
    path: str  # as it is named, made absolute
    real: str  # where it leads
    place: str  # the throw-away place

    @property
    def message(self) -> str:
        through = f", that is {self.real}," if self.real != self.path else ""
        return (
            f"{self.path}{through} is not granted, and every cage has a {self.place} of its own: files there are lost"
        )

    def hint(self, filesystem: HostFilesystem) -> str:
        """What to name or to grant instead."""
        folder = self.real if filesystem.kind(self.real) == "directory" else posixpath.dirname(self.real)
        if folder in THROWAWAY_PLACES or is_below(folder, "/dev"):
            return "name a path in its own folder, as config:/NAME, or in a folder that you grant"
        grant = f"grant write:fs:{printable(folder, _SHOWN_CHARS)}"
        first = "" if filesystem.kind(folder) == "directory" else "create that folder and "
        return f"{first}{grant} (read:fs: if it only reads), or name a path in its own folder, as config:/NAME"


def find_lost_paths(
    manifest: Manifest,
    config: Mapping[str, Any],
    directory: str,
    is_kept: Callable[[str], bool],
    filesystem: HostFilesystem,
) -> Iterator[LostPath]:
    """Find what would be lost.

    Args:
        manifest: The plugin's manifest, its references substituted.
        config: Its configuration.
        directory: Its working directory, which relative paths start from.
        is_kept: Whether the cage shows a real path of the host, or it is lost anyway.
        filesystem: The host's files.
    """
    reported: set[str] = set()
    for setting in setting_texts(manifest, config):
        if _is_scratch(setting):
            continue
        for named in _whole_paths(setting.text):
            path = posixpath.normpath("/" + posixpath.join(directory, named).lstrip("/"))
            resolved = resolve_links(path, filesystem, must_exist=False)
            real = resolved.real if resolved else path
            place = next((place for place in THROWAWAY_PLACES if is_below(real, place)), None)
            if place is not None and real not in reported and not is_kept(real):
                reported.add(real)
                yield LostPath(setting.where, path, real, place)


def _is_scratch(setting: SettingText) -> bool:
    return any(word.lower() in _SCRATCH_WORDS for word in _WORD.findall(setting.name))


def _whole_paths(text: str) -> Iterable[str]:
    """The paths that a text consists of. Not any path in it: the script of a shell may name scratch files."""
    assigned = _ASSIGNMENT.fullmatch(text) or _SHORT_OPTION.fullmatch(text)
    value = assigned[1] if assigned else text
    if value.lstrip()[:1] in ("{", "["):
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return ()
        return [path for one in nested_strings(document) if one != text for path in _whole_paths(one)]
    url = _URL_WITHOUT_HOST.fullmatch(value)
    paths = _LIST_SEPARATOR.split(value) if url is None else [url[1]]
    if not all(one.startswith(("/", "./", "../")) for one in paths if one):
        paths = [value]
    return [one for one in paths if "/" in one and "\0" not in one and len(one) < _MAX_PATH_CHARS]
