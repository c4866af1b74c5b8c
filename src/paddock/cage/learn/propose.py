"""Proposes grants for what was observed in a learning cage. Pure over a `HostFilesystem`.

The kernel's answers are not observed. Every file has its own path in a cage, so the cage's spec says whether a path is
shown there, and the host's file system says what would be there.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass

from paddock.cage.learn.proposal import Learned
from paddock.cage.observe.observation import FileAttempt, Observations
from paddock.cage.plan.database_files import is_database, reads_need_folder
from paddock.cage.plan.host_filesystem import HostFilesystem
from paddock.cage.plan.mount_layout import CAGE_OWNED, NEVER_MOUNTED, is_below, parent_directories
from paddock.cage.plan.named_places import NamedPlaces
from paddock.cage.plan.programs import PROGRAM_SUFFIXES, find_program, resolve_links
from paddock.cage.spec import CageSpec, StandIn
from paddock.core.printable import printable
from paddock.manifest.capability import (
    Capability,
    Execute,
    FileAccess,
    InvalidCapability,
    is_dangerous,
    parse_capability,
)

_PRIVATE = "/tmp"  # noqa: S108 every cage has its own
SYSTEM_DIRECTORIES = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/var/lib")
# Libraries try these wherever they run, and go on without.
_OPTIONAL_FILES = (
    "/etc/apache2",
    "/etc/debian_version",
    "/etc/environment",
    "/etc/gai.conf",
    "/etc/gitconfig",
    "/etc/host.conf",
    "/etc/httpd",
    "/etc/inputrc",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/lsb-release",
    "/etc/machine-id",
    "/etc/mime.types",
    "/etc/os-release",
    "/etc/pki",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl",
    "/etc/timezone",
    "/usr/lib/os-release",
    "/usr/lib/ssl",
    "/usr/share/ca-certificates",
    "/usr/share/git-core",
    "/usr/share/locale",
)
_MANY_FILES = 4  # of one directory: then the directory is proposed
_VERBS = {"look": "looks for", "read": "reads", "write": "writes", "execute": "runs"}
_STRENGTH = ("look", "execute", "read", "write")


@dataclass(frozen=True, slots=True)
class LearningContext:
    """What a plugin's attempts are compared with.

    Attributes:
        cage: The cage it ran in.
        named: What its settings name.
        filesystem: The host's files.
        package: The directory of its own files.
        own_folder: What `config:/` stands for.
        hidden: Paddock's own directories.
        program_path: Directories of the host's programs.
    """

    cage: CageSpec
    named: NamedPlaces
    filesystem: HostFilesystem
    package: str
    own_folder: str
    hidden: tuple[str, ...]
    program_path: str

    def kind(self, path: str) -> str | None:
        """The type of the file that a path leads to on the host."""
        resolved = resolve_links(path, self.filesystem)
        return None if resolved is None else self.filesystem.kind(resolved.real)

    def shown(self, path: str, *, writable: bool = False) -> bool:
        """Whether the cage shows the host's file at this path, for writing too if asked."""
        resolved = resolve_links(path, self.filesystem)
        real = resolved.real if resolved else path
        binds = {bind.target: bind for bind in self.cage.binds}
        stand_ins = {one.path for one in self.cage.learning.stand_ins} if self.cage.learning else set[str]()
        for directory in (real, *parent_directories(real)):
            if directory in binds:
                return binds[directory].writable or not writable
            if directory in stand_ins or directory in self.cage.covers:
                return False
            if directory in CAGE_OWNED:
                return directory != _PRIVATE
        return False

    def is_own(self, path: str) -> bool:
        """Whether it is one of the plugin's own files: its package, or the packages that were installed for it."""
        return is_below(path, self.package) or (
            self.is_hidden(path) and not is_below(path, self.own_folder) and self.shown(path)
        )

    def is_hidden(self, path: str) -> bool:
        """Whether it belongs to Paddock, another plugin's files too."""
        return any(is_below(path, directory) for directory in self.hidden)


def propose_grants(seen: Observations, context: LearningContext, learned: Learned) -> None:
    """Add the proposals for what was observed; named places first, since those are what the plugin is for."""
    for path, where in context.named.paths.items():
        _propose_named(path, where, _strongest_use(seen.files, path), context, learned)
    own_ideas = [one for one in seen.files if one.use != "look" and context.named.around(one.path) is None]
    for attempt in own_ideas:
        if attempt.use == "execute":
            _propose_program(attempt.path, context, learned)
    _propose_files([one for one in own_ideas if one.use != "execute"], context, learned)
    _propose_hosts(seen, context, learned)


def _strongest_use(attempts: Iterable[FileAttempt], path: str) -> str:
    """How a named path was used, itself or anything in it; empty where it was not."""
    # A path is also looked for step by step, from the outside.
    uses = {one.use if is_below(one.path, path) else "look" for one in attempts if _related(one.path, path)}
    return max(uses, key=_STRENGTH.index, default="")


def _related(path: str, named: str) -> bool:
    return is_below(path, named) or (path != "/" and is_below(named, path))


def _propose_named(path: str, where: str, use: str, context: LearningContext, learned: Learned) -> None:
    if use == "execute" or posixpath.dirname(path) in context.program_path.split(":"):
        _propose_program(path, context, learned)
        return
    if context.shown(path, writable=use == "write") or _is_below_any(path, NEVER_MOUNTED):
        _note_shown(path, context, learned)
        return
    if is_below(path, context.own_folder):
        reason = f"{path} is in its own folder, named in {where}"
        learned.propose(FileAccess("write", "/", "config"), reason, named=True)
        return
    if context.is_hidden(path):
        if not is_below(path, context.package):
            learned.object(f"{path}, named in {where}, is Paddock's own and is never shown to a plugin")
        return
    if path == _PRIVATE:
        return  # an argument that names it means scratch files, which every cage has
    kind = context.kind(path)
    if kind is None:
        _propose_new_file(path, where, context, learned)
        return
    resolved = resolve_links(path, context.filesystem)
    if resolved is not None and resolved.real != path:
        hint = f"name {printable(resolved.real)} there instead"
        learned.object(f"{path}, named in {where}, is a link to {resolved.real}", hint)
        return
    if kind == "special":
        learned.object(f"{path}, named in {where}, is a pipe, socket or device, which no plugin is shown")
        return
    folder = posixpath.dirname(path)
    if use == "write" and kind == "file" and _grantable_folder(folder):
        # Editors and databases make files beside the one that they write.
        reason = f"writes {path}, named in {where}"
        _propose_path("write", folder, reason, learned, named=True, stand_in=StandIn(folder, "directory"))
        return
    verb = _VERBS[use] if use in ("read", "write") else "looks into" if use and kind == "directory" else _VERBS["look"]
    reason = f"{verb} {path}, named in {where}" if use else f"{path} is named in {where}; it was not opened so far"
    mode = "write" if use == "write" else "read"
    stand_in = StandIn(path, "directory" if kind == "directory" else "file")
    place = folder if mode == "read" and reads_need_folder(path, context.filesystem) else path
    write_path = _write_path(path, context)
    _propose_path(mode, place, reason, learned, named=True, stand_in=stand_in, write_path=write_path)


def _note_shown(path: str, context: LearningContext, learned: Learned) -> None:
    """A named path that the plugin may read: it may want to change it, and a database needs its folder for that."""
    write_path = _write_path(path, context)
    if not write_path or not _granted_around(path, learned.granted) or context.shown(write_path, writable=True):
        return
    if context.shown(path, writable=True):
        reason = f"makes a journal beside {path}, a SQLite database"
        stand_in = StandIn(write_path, "directory")
        _propose_path("write", write_path, reason, learned, named=True, stand_in=stand_in)
    else:
        learned.note_widenable(FileAccess("write", write_path))


def _write_path(path: str, context: LearningContext) -> str:
    """What to grant so that a named file or directory can be changed; empty for programs."""
    if is_database(path, context.filesystem):
        folder = posixpath.dirname(path)
        return folder if _grantable_folder(folder) else ""
    return "" if context.kind(path) != "directory" and path.endswith(PROGRAM_SUFFIXES) else path


def _propose_new_file(path: str, where: str, context: LearningContext, learned: Learned) -> None:
    """A named path that does not exist: the plugin has to make it, in a folder that exists."""
    folder = posixpath.dirname(path)
    if folder == _PRIVATE:
        message = f"{path}, named in {where}, would be lost: every cage has a {_PRIVATE} of its own"
        learned.object(message, "name a path in its own folder, as config:/NAME, or in a folder that you grant")
    elif context.kind(folder) == "directory" and _grantable_folder(folder):
        if not context.shown(folder, writable=True):
            reason = f"makes {path}, named in {where}"
            _propose_path("write", folder, reason, learned, named=True, stand_in=StandIn(folder, "directory"))
    elif context.kind(folder) is None:
        learned.object(f"{path}, named in {where}, does not exist, nor does {folder}", "create the folder first")


def _grantable_folder(folder: str) -> bool:
    program_files = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc")
    dangerous = is_dangerous(FileAccess("write", folder)) or folder in SYSTEM_DIRECTORIES
    return not dangerous and not _is_below_any(folder, program_files)


def _propose_program(path: str, context: LearningContext, learned: Learned) -> None:
    name = posixpath.basename(path)
    if context.kind(path) != "file" or not context.filesystem.runnable(path):
        return  # a search along PATH, or the search permission of a directory
    resolved = resolve_links(path, context.filesystem)
    if path in context.cage.executables or (resolved and resolved.real in context.cage.executables):
        return
    found = find_program(name, context.program_path, context.filesystem)
    try:
        capability = parse_capability(f"exec:{name}:/")
    except InvalidCapability:
        found = None
        capability = Execute(name, "/")
    if found is None or resolved is None or found.real != resolved.real:
        message = f"it runs {path}, which no grant allows"
        learned.object(message, f"install it for everyone, into one of {context.program_path.replace(':', ', ')}")
        return
    stand_in = None if context.shown(path) else StandIn(path, "program")
    where = next((where for where, text in context.named.texts if text in (name, path)), "")
    learned.propose(
        capability, f"runs {name}" + (f", named in {where}" if where else ""), named=bool(where), stand_in=stand_in
    )


def _propose_files(attempts: Iterable[FileAttempt], context: LearningContext, learned: Learned) -> None:
    """Files that no setting names."""
    reads: dict[str, list[str]] = {}
    for attempt in attempts:
        path, writes = attempt.path, attempt.use == "write"
        target = path if context.kind(path) is not None or not writes else posixpath.dirname(path)
        kind = context.kind(target)
        if kind in (None, "special") or context.shown(target, writable=writes) or _is_uninteresting(path, target):
            continue
        if context.is_own(target):
            if writes:
                _object_to_own_file(path, context, learned)
            continue
        if context.is_hidden(target) or (context.shown(target) and not _granted_around(target, learned.granted)):
            continue
        if not writes:
            reads.setdefault(posixpath.dirname(path), []).append(path)
            continue
        own_idea = not _is_below_any(target, SYSTEM_DIRECTORIES)
        stand_in = StandIn(target, "directory" if kind == "directory" else "file")
        _propose_path("write", target, f"writes {path}", learned, own_idea=own_idea, stand_in=stand_in)
    for folder, paths in reads.items():
        beside = _named_neighbour(folder, context)
        together = len(paths) >= _MANY_FILES and not is_dangerous(FileAccess("read", folder))
        for path in [folder] if together or (beside and not is_dangerous(FileAccess("read", folder))) else paths:
            reason = f"reads {paths[0]}" + (f" and {len(paths) - 1} more there" if path == folder and paths[1:] else "")
            reason += f", beside {beside}" if beside else ""
            own_idea = not beside and not _is_below_any(path, SYSTEM_DIRECTORIES)
            stand_in = StandIn(path, "directory" if context.kind(path) == "directory" else "file")
            _propose_path("read", path, reason, learned, named=bool(beside), own_idea=own_idea, stand_in=stand_in)


def _object_to_own_file(path: str, context: LearningContext, learned: Learned) -> None:
    """A file that it writes among its own: no grant allows that, and most servers have a setting that moves it."""
    where = "its own package, which is" if is_below(path, context.package) else "its installed packages, which are"
    learned.object(
        f"it writes {path}, in {where} read-only",
        "if a variable or argument moves that file, name config:/FILE there, in a folder of its own, and grant"
        " write:fs:config:/",
        saves=True,
    )


def _is_uninteresting(path: str, target: str) -> bool:
    """Whether it is the machine's own state, a scratch directory, or a file that everything goes on without."""
    compiled = "__pycache__" in path.split("/")  # Python keeps these wherever it may
    return compiled or target in ("/", _PRIVATE) or _is_below_any(target, (*NEVER_MOUNTED, *_OPTIONAL_FILES))


def _named_neighbour(folder: str, context: LearningContext) -> str:
    """A file in this folder that the settings name: a script reads the modules beside it."""
    in_folder = (path for path in context.named.paths if posixpath.dirname(path) == folder)
    return next((path for path in in_folder if context.kind(path) == "file"), "")


def _granted_around(path: str, granted: Iterable[Capability]) -> bool:
    return any(isinstance(one, FileAccess) and not one.root and is_below(path, one.path) for one in granted)


def _propose_path(
    mode: str,
    path: str,
    reason: str,
    learned: Learned,
    *,
    named: bool = False,
    own_idea: bool = False,
    stand_in: StandIn | None = None,
    write_path: str = "",
) -> None:
    try:
        capability = parse_capability(f"{mode}:fs:{path}")
    except InvalidCapability:
        learned.object(f"it {reason}; no grant can be written for such a path", "rename it without special characters")
        return
    if own_idea:
        reason += "; nothing in its settings names it"
    learned.propose(capability, reason, named=named, own_idea=own_idea, stand_in=stand_in, write_path=write_path)


def _propose_hosts(seen: Observations, context: LearningContext, learned: Learned) -> None:
    for attempt in seen.network:
        if attempt.port is not None:
            _propose_host(attempt.host, attempt.port, context.named.where_host(attempt.host), "", learned)
    for attempt in seen.loopback:
        named = next((where for name in ("localhost", "127.0.0.1") if (where := context.named.where_host(name))), "")
        warning = "" if named else "a program of this machine may listen there, and trust every client that connects"
        if attempt.port is not None:
            _propose_host("127.0.0.1", attempt.port, named, warning, learned)


def _propose_host(host: str, port: int, where: str, warning: str, learned: Learned) -> None:
    try:
        capability = parse_capability(f"net:{f'[{host}]' if ':' in host and host[0] != '[' else host}:{port}")
    except InvalidCapability:
        return
    reason = f"connects to {host} on port {port}" + (f", named in {where}" if where else "")
    learned.propose(capability, reason, named=bool(where), warning=warning)


def _is_below_any(path: str, directories: Iterable[str]) -> bool:
    return any(is_below(path, directory) for directory in directories)
