"""The capability grammar: access to this machine and to host services that a plugin may request, as values.

    read:fs:PATH   write:fs:PATH      a directory or file, recursively; write includes read
    exec:BINARY:PATH                  run one program, in one working directory
    net:HOST:PORT  net:HOST:*  net:*  TCP; `net:[]` declares that there is no network
    storage:read   storage:write      the plugin's own tables; write includes read (`kaged:storage:…` is the same)
    host:FAMILY    host:FAMILY:MODE   a service of the host, e.g. `host:http`, `host:vault:read`
    secret:NAME    secret:NAME=PLACE  one secret and its recipient (`secret_use.py`); only in grants (`permissions.py`)

PATH is absolute, or below `config:/` or `project:/`, which stand for directories that the host resolves. No `..`, no
globs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, cast

from msgspec import Struct

from paddock.manifest.credential_paths import credentials_at, runs_outside
from paddock.manifest.network import InvalidCapability, NetworkAccess, NoNetwork, parse_network
from paddock.manifest.secret_use import SecretUse, parse_secret_use

# Families that Shu plugins declare and OSQR's data access maps to; `log` and `audit` need no declaration.
HOST_FAMILIES: Mapping[str, str] = {
    "artifacts": "store and fetch documents for you",
    "audit": "write to the audit trail",
    "auth": "act with accounts you connected",
    "cache": "keep short-lived values",
    "cursor": "remember how far a sync has come",
    "http": "call web services through the host, which checks and records each call",
    "identity": "look up who people are",
    "kb": "add to and search the knowledge base",
    "log": "write to the log",
    "memory": "work with what the assistant remembers about you",
    "model": "use a language model through the host",
    "ocr": "read text from images and PDFs",
    "query": "query indexed data",
    "rate": "count against a rate limit",
    "scheduler": "schedule work for later",
    "secrets": "use secrets that it declares by name",
    "storage": "store and fetch its own objects",
    "vault": "use your private knowledge vault",
}
FAMILY_ALIASES = {"rate_limit": "rate", "logger": "log", "pkv": "vault"}
FAMILY_MODES = {"vault": ("read", "write"), "memory": ("reference_only", "full")}

_PROGRAM_NAME = re.compile(r"[A-Za-z0-9._+-]{1,64}")
_GLOB = re.compile(r"[*?\[\]{}]")

PathRoot: TypeAlias = Literal["", "config", "project"]


class FileAccess(Struct, frozen=True):
    mode: Literal["read", "write"]
    path: str
    root: PathRoot = ""

    def __str__(self) -> str:
        return f"{self.mode}:fs:{rooted_path(self.root, self.path)}"


class Execute(Struct, frozen=True):
    binary: str
    path: str
    root: PathRoot = ""

    def __str__(self) -> str:
        return f"exec:{self.binary}:{rooted_path(self.root, self.path)}"


class StorageAccess(Struct, frozen=True):
    mode: Literal["read", "write"]

    def __str__(self) -> str:
        return f"storage:{self.mode}"


class HostService(Struct, frozen=True):
    family: str
    mode: str | None = None

    def __str__(self) -> str:
        return f"host:{self.family}" + (f":{self.mode}" if self.mode else "")


Capability: TypeAlias = FileAccess | Execute | NetworkAccess | NoNetwork | StorageAccess | HostService | SecretUse


def rooted_path(root: PathRoot, path: str) -> str:
    return f"{root}:{path}" if root else path


def normalise_entry(item: Any) -> list[str]:
    """Turn a list entry into capability texts: YAML reads `- net: []` as a map and `- net:[]` as a string.

    Raises:
        InvalidCapability: the entry is neither a string nor such a map.
    """
    if isinstance(item, str):
        return [item]
    if isinstance(item, dict):
        entries = cast("dict[Any, Any]", item)
        if list(entries) == ["net"]:
            targets: Any = entries["net"]
            if targets in ([], None):
                return ["net:[]"]
            if isinstance(targets, list) and all(isinstance(target, str) for target in targets):  # pyright: ignore[reportUnknownVariableType]
                return [f"net:{target}" for target in targets]  # pyright: ignore[reportUnknownVariableType]
        if len(entries) == 1:
            (key, value), *_ = entries.items()
            if isinstance(key, str) and isinstance(value, str):
                # YAML reads `- read:fs: /opt/x` with a stray space as a map; the author means a capability.
                return [f"{key}:{value}"]
    raise InvalidCapability(
        "expected a capability as text", "write it as one string, e.g. 'read:fs:/opt/data'; no network is 'net:[]'"
    )


def parse_capability(text: str) -> Capability:
    """Parse one capability.

    Raises:
        InvalidCapability: the text is outside the grammar.
    """
    if len(text) > 1024 or not text.isprintable():
        raise InvalidCapability(
            "is over 1024 characters or has control characters", "write a short, printable capability"
        )
    head, _, rest = text.partition(":")
    match head:
        case "read" | "write":
            if not rest.startswith("fs:"):
                raise InvalidCapability(
                    f"{text!r} names no kind of thing to {head}", f"write '{head}:fs:/absolute/path'"
                )
            root, path = _parse_path(rest.removeprefix("fs:"), example=f"{head}:fs:/opt/data")
            return FileAccess(head, path, root)
        case "exec":
            binary, colon, directory = rest.partition(":")
            if not colon or not _PROGRAM_NAME.fullmatch(binary):
                raise InvalidCapability(
                    f"{text!r} does not name a program and a directory", "write 'exec:bash:/opt/tool'"
                )
            root, path = _parse_path(directory, example=f"exec:{binary}:/opt/tool")
            return Execute(binary, path, root)
        case "net":
            return parse_network(text, rest)
        case "kaged" | "paddock" if rest in ("storage:read", "storage:write"):
            return StorageAccess("write" if rest.endswith("write") else "read")
        case "storage" if rest in ("read", "write"):
            return StorageAccess("write" if rest == "write" else "read")
        case "host":
            return parse_host_service(rest)
        case "secret":
            return parse_secret_use(text, rest)
        case _:
            raise InvalidCapability(
                f"{text!r} is not a capability",
                "use read:fs:PATH, write:fs:PATH, exec:BINARY:PATH, net:HOST:PORT, net:[], storage:read, "
                "storage:write or host:FAMILY",
            )


def parse_host_service(text: str) -> HostService:
    """Parse a host service from `family` or `family:mode`.

    Raises:
        InvalidCapability: there is no such family, or it has no such mode.
    """
    name, _, mode = text.partition(":")
    family = FAMILY_ALIASES.get(name, name)
    if family not in HOST_FAMILIES:
        raise InvalidCapability(f"the host has no service {name!r}", f"choose from {', '.join(sorted(HOST_FAMILIES))}")
    modes = FAMILY_MODES.get(family)
    if modes and mode not in modes:
        message = f"host:{family} has no mode {mode[:40]!r}" if mode else f"host:{family} needs a mode"
        raise InvalidCapability(message, f"write {' or '.join(f'host:{family}:{m}' for m in modes)}")
    if mode and not modes:
        raise InvalidCapability(f"host:{family} has no modes", f"write 'host:{family}'")
    return HostService(family, mode or None)


def _parse_path(text: str, *, example: str) -> tuple[PathRoot, str]:
    root: PathRoot = ""
    if text.startswith("config:"):
        root, text = "config", text.removeprefix("config:")
    elif text.startswith("project:"):
        root, text = "project", text.removeprefix("project:")
    if not text.startswith("/"):
        raise InvalidCapability(
            f"the path {text!r} is not absolute",
            f"write it from the root, e.g. '{example}', or below 'config:/' or 'project:/'",
        )
    if _GLOB.search(text):
        raise InvalidCapability(
            f"the path {text!r} has a pattern in it", "name the directory itself; it includes everything below"
        )
    segments = [segment for segment in text.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise InvalidCapability(f"the path {text!r} climbs with '..'", "write the path without '..'")
    return root, "/" + "/".join(segments)


def covers(granted: Capability, requested: Capability) -> bool:
    """Whether the granted capability includes the requested one."""
    match granted, requested:
        case FileAccess(), FileAccess():
            return (
                granted.root == requested.root
                and (granted.mode == "write" or requested.mode == "read")
                and _is_below(granted.path, requested.path)
            )
        case NetworkAccess(host="*"), NetworkAccess() | NoNetwork():
            return True
        case NetworkAccess(), NetworkAccess():
            return granted.includes(requested)
        case StorageAccess(), StorageAccess():
            return granted.mode == "write" or requested.mode == "read"
        case HostService(family="memory", mode="full"), HostService(family="memory"):
            return True
        case SecretUse(), SecretUse():
            return granted.includes(requested)
        case _, NoNetwork():
            return True
        case _:
            return granted == requested


def _is_below(parent: str, child: str) -> bool:
    return parent == "/" or child == parent or child.startswith(parent + "/")


def missing_capabilities(granted: Iterable[Capability], requested: Iterable[Capability]) -> list[Capability]:
    """Return the requested capabilities that no granted one includes: those a person must approve."""
    grants = list(granted)
    return [
        capability
        for capability in requested
        if not any(covers(grant, capability) for grant in grants) and not isinstance(capability, NoNetwork)
    ]


def merge_capabilities(first: Iterable[Capability], second: Iterable[Capability]) -> tuple[Capability, ...]:
    """Merge two lists. If either requests the network, the other's `net:[]` is dropped."""
    both = list(dict.fromkeys([*first, *second]))
    connected = any(isinstance(capability, NetworkAccess) for capability in both)
    return tuple(one for one in both if not (connected and isinstance(one, NoNetwork)))


RUN_OUTSIDE_TEXT = "what it writes there is run without a cage"
_ROOT_TEXT: Mapping[PathRoot, str] = {"": "", "config": " in its configuration folder", "project": " in your project"}


def describe_capability(capability: Capability) -> str:
    """Describe the capability in plain words, for a consent screen."""
    match capability:
        case FileAccess(mode, path, root):
            verb = "read" if mode == "read" else "read and change"
            if path == "/":
                return f"{verb} everything{_ROOT_TEXT[root] or ' on this machine'}"
            # The disk is not examined here, so it may be a file or a folder.
            text = f"{verb} {path}{_ROOT_TEXT[root]}, and everything in it if it is a folder"
            if not root and (credentials := credentials_at(path)):
                return f"{text}; it holds {credentials} (dangerous)"
            if not root and mode == "write" and runs_outside(path):
                return f"{text}; {RUN_OUTSIDE_TEXT} (dangerous)"
            return text
        case Execute(binary, path, root):
            # The program may start anywhere: the directory is shown to it, and does not bind it.
            return f"run the program {binary}" + (
                "" if path == "/" and not root else f", and read {rooted_path(root, path)}"
            )
        case NetworkAccess(host="*"):
            return "connect to every public host, on any port (dangerous)"
        case NetworkAccess(host, port):
            return f"connect to {host}" + (" on any port" if port is None else f" on port {port}")
        case NoNetwork():
            return "no network"
        case StorageAccess(mode):
            return "read its own tables" if mode == "read" else "read and write its own tables"
        case HostService(family, mode):
            text = HOST_FAMILIES[family]
            return f"{text} ({mode.replace('_', ' ')})" if mode else text
        case SecretUse(name, to):
            text = f"have the secret {name}"
            return f"{text} sent to {str(to.to).removeprefix('net:')}, as {to.header}" if to else f"{text} as a value"


def is_dangerous(capability: Capability) -> bool:
    """Whether to warn about it: it reaches credentials, files that run without a cage, most of the machine or the whole
    network."""
    match capability:
        case NetworkAccess(host="*"):
            return True
        case FileAccess(mode=mode, path=path, root=""):
            writes_programs = mode == "write" and runs_outside(path)
            return path.count("/") == 1 or bool(credentials_at(path)) or writes_programs
        case _:
            return False


def is_harmless(capabilities: Iterable[Capability]) -> bool:
    """Whether a cage with these can change nothing outside: no network, writes, programs or stored rows."""
    for capability in capabilities:
        match capability:
            case FileAccess(mode="read") | NoNetwork() | StorageAccess(mode="read"):
                continue
            case HostService(family="cache" | "log" | "audit" | "rate" | "identity" | "query" | "ocr" | "cursor"):
                continue
            case HostService(family="vault", mode="read") | HostService(family="memory", mode="reference_only"):
                continue
            case _:
                return False
    return True
