"""Places that a command is told of and that its cage will not show it, because nobody granted them."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator, Mapping
from typing import Any

from paddock.core.errors import Problem
from paddock.core.printable import printable
from paddock.manifest.capability import BadCapability, Capability, covers, parse
from paddock.manifest.credential_places import credentials_at
from paddock.manifest.model import CommandRuntime, Manifest
from paddock.plugins.glances import Glances
from paddock.plugins.sources import Source, SourceKind

PATIENCE = 0.5  # seconds for all looks together: a dead disk never answers
# What is there in a cage too, or is a program: the cage has its own words for those.
_OF_THE_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/dev", "/proc", "/sys")
_MOST = 20

Named = tuple[str, str]  # where in the manifest, and the path


def ungranted_places(manifest: Manifest, values: Mapping[str, Any], source: Source) -> list[Problem]:
    """A warning for each place of this machine that the command names and that no capability covers.

    Args:
        manifest: What will run.
        values: Configuration that came with it, which may name places too.
        source: Where it comes from, which decides how to give it more.
    """
    wanted = {path: where for where, path in reversed(list(_named(manifest, values)))}
    deadline = time.monotonic() + PATIENCE
    found: list[Problem] = []
    for path, where in list(wanted.items())[:_MOST]:
        asked = _capability("read", path)
        if asked is None or any(covers(one, asked) for one in manifest.capabilities):
            continue
        folder = path.rpartition("/")[0]
        if _here(path, deadline):
            message = f"{printable(path)} is named and not granted: in its cage the plugin finds nothing there"
            found.append(Problem(where, message, _let_read(path, asked, source), "place_not_granted"))
        elif (writing := _capability("write", folder)) and not _everybodys(folder) and _here(folder, deadline):
            message = f"{printable(path)} is named and its folder is not granted: in its cage the plugin cannot make it"
            found.append(Problem(where, message, _let_make(folder, writing, source), "place_not_granted"))
    return found[::-1]


def _named(manifest: Manifest, values: Mapping[str, Any]) -> Iterator[Named]:
    runtime = manifest.runtime
    if not isinstance(runtime, CommandRuntime):
        return
    texts = [(f"runtime.command[{index}]", word) for index, word in enumerate(runtime.command) if index]
    texts += [(f"runtime.env.{name}", text) for name, text in runtime.env.items()]
    texts += [(f"system_config.{name}", text) for name, text in values.items() if isinstance(text, str)]
    for where, text in texts:
        given = text.partition("=")[2] if text.startswith("-") else text
        for part in given.split(":") if given.startswith("/") else ():
            path = os.path.normpath(part)
            if part.startswith("/") and not _everybodys(path):
                yield where, path


def _everybodys(path: str) -> bool:
    """Whether it is no place to grant: the root, what is the system's, or `/tmp`, of which each cage has its own."""
    own = path in ("/", "/tmp")  # noqa: S108 - nothing is written there
    return own or any(path == place or path.startswith(f"{place}/") for place in _OF_THE_SYSTEM)


def _here(path: str, deadline: float) -> bool:
    return bool(_HERE.at(path, max(0.0, deadline - time.monotonic())))


def _capability(doing: str, path: str) -> Capability | None:
    try:
        return parse(f"{doing}:fs:{path}")
    except BadCapability:
        return None  # no words for it in the grammar


def _let_read(path: str, asked: Capability, source: Source) -> str:
    """What to do: never what would open a place with credentials."""
    held = credentials_at(path)
    if held:
        return f"leave it closed: this place holds {held}"
    if _by_option(source):
        return f"let it read there: --capability {shlex.quote(str(asked))}   (write:fs: where it also writes)"
    return f"if it is to read there, its manifest has to ask for it: capabilities: ['{asked}']"


def _let_make(folder: str, asked: Capability, source: Source) -> str:
    held = credentials_at(folder)
    if held:
        return f"have it in a folder of its own: {printable(folder)} holds {held}"
    if _by_option(source):
        return f"let it write there: --capability {shlex.quote(str(asked))}"
    return f"if it is to write there, its manifest has to ask for it: capabilities: ['{asked}']"


def _by_option(source: Source) -> bool:
    return source.kind.registry or source.kind is SourceKind.CONFIGURATION


def _exists(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - a path that cannot be one is no place either


# One for the whole process, since it bounds how many of its threads hang.
_HERE = Glances(_exists)
