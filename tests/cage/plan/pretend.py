"""A machine that is only written down: the files of a small Debian, so that a cage compiles the same everywhere."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any

import pytest

from paddock.cage.errors import CageUnavailable
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.granted_paths import GrantRoots
from paddock.cage.plan.host_filesystem import FileKind
from paddock.cage.spec import CageSpec
from paddock.core.ids import PluginName
from paddock.manifest.capability import parse_capability
from paddock.manifest.model import CommandRuntime, Dialect, Manifest

ROOT = "/srv/paddock/plugins/notes/1.0.0"

# `-> x` is a link, `*` a program, `* #!…` a script with its first line, `.` an empty directory, `|` a pipe,
# `-` any other file.
DEBIAN = {
    "/bin": "-> usr/bin",
    "/dev/null": "-",
    "/etc/alternatives/awk": "-> /usr/bin/mawk",
    "/etc/hostname": "-",
    "/etc/hosts": "-",
    "/etc/ld.so.cache": "-",
    "/etc/localtime": "-> /usr/share/zoneinfo/UTC",
    "/etc/passwd": "-",
    "/etc/shadow": "-",
    "/etc/ssl/certs": ".",
    "/home/ada/notes/today.md": "-",
    "/home/ada/shortcut": "-> /etc",
    "/lib": "-> usr/lib",
    "/lib64": "-> usr/lib64",
    "/opt/data/in": ".",
    "/opt/data/out": ".",
    "/opt/interpreter/bin/python3.12": "*",
    "/opt/interpreter/lib/python3.12": ".",
    "/opt/moved": "-> /opt/data",
    "/opt/round": "-> /opt/round",
    "/opt/venv/bin/python": "-> python3",
    "/opt/venv/bin/python3": "-> /opt/interpreter/bin/python3.12",
    "/opt/venv/pyvenv.cfg": "-",
    "/proc/self": ".",
    "/run/docker.sock": "-",
    "/sbin": "-> usr/sbin",
    "/srv/paddock/config/notes/memory": ".",
    "/srv/paddock/data/paddock.db": "-",
    "/srv/paddock/lib/paddock_sdk/__init__.py": "-",
    "/sys/kernel": ".",
    "/tmp/shared": ".",
    "/usr/bin/awk": "-> /etc/alternatives/awk",
    "/usr/bin/bash": "*",
    "/usr/bin/env": "*",
    "/usr/bin/git": "*",
    "/usr/bin/mawk": "*",
    "/usr/bin/node": "*",
    "/usr/bin/npx": "-> ../lib/node_modules/npm/bin/npx-cli.js",
    "/usr/bin/python3": "-> python3.11",
    "/usr/bin/python3.11": "*",
    "/usr/lib/node_modules/npm/bin/npx-cli.js": "* #!/usr/bin/env node",
    "/usr/lib/python3/dist-packages": ".",
    "/usr/lib/python3.11/os.py": "-",
    "/usr/lib/python3.9/os.py": "-",
    "/usr/lib/x86_64-linux-gnu/libc.so.6": "-",
    "/usr/lib64/ld-linux-x86-64.so.2": "-> /lib/x86_64-linux-gnu/ld-linux-x86-64.so.2",
    "/usr/share/zoneinfo/UTC": "-",
    f"{ROOT}/main.py": "-",
    f"{ROOT}/unmarked.sh": "-",
    f"{ROOT}/tool.sh": "* #!/usr/bin/env bash",
    f"{ROOT}/tool.py": "* #! /usr/bin/python3 -u",
}


_KINDS: Mapping[str, FileKind] = {".": "directory", "|": "special"}


class PretendMachine:
    """The files of a listing as DEBIAN is one."""

    def __init__(self, listing: Mapping[str, str] = DEBIAN) -> None:
        self.files = dict(listing)

    def kind(self, path: str) -> FileKind | None:
        entry = self.files.get(path)
        if entry is not None:
            return "link" if entry.startswith("->") else _KINDS.get(entry, "file")
        return "directory" if path == "/" or any(name.startswith(path + "/") for name in self.files) else None

    def link(self, path: str) -> str:
        entry = self.files.get(path, "")
        return entry.removeprefix("-> ") if entry.startswith("->") else ""

    def entries(self, path: str) -> list[str]:
        inside = posixpath.join(path, "")
        return sorted({name.removeprefix(inside).split("/")[0] for name in self.files if name.startswith(inside)})

    def runnable(self, path: str) -> bool:
        return self.files.get(path, "").startswith("*")

    def read_head(self, path: str) -> bytes:
        return self.files.get(path, "").removeprefix("* ").encode()


def caged(
    *capabilities: str,
    command: tuple[str, ...] = ("python3", "./main.py"),
    machine: PretendMachine | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    dialect: Dialect = Dialect.NATIVE,
    root: str = ROOT,
    **given: Any,
) -> CageSpec:
    """The cage of a plugin `notes` with these grants on the pretend machine."""
    manifest = Manifest(
        name=PluginName("notes"),
        version="1.0.0",
        dialect=dialect,
        runtime=CommandRuntime(command, env=env or {}, cwd=cwd),
    )
    return compile_cage(
        cage_id="cage-1",
        manifest=manifest,
        root=root,
        capabilities=[parse_capability(text) for text in capabilities],
        environment=spawn_environment(manifest, root, "info"),
        host_paths=HostPaths(
            python="/opt/interpreter/bin/python3.12",
            sdk="/srv/paddock/lib",
            hidden=("/srv/paddock/config", "/srv/paddock/data"),
        ),
        filesystem=machine or PretendMachine(),
        roots=given.pop("places", GrantRoots(config="/srv/paddock/config/notes", project="/home/ada")),
        **given,
    )


def shown(spec: CageSpec) -> dict[str, bool]:
    """Every bound path and whether it is writable."""
    return {bind.target: bind.writable for bind in spec.binds}


def refusals(*capabilities: str, **given: Any) -> dict[str, str]:
    """What stands against a cage: where it comes from, and its code."""
    with pytest.raises(CageUnavailable) as caught:
        caged(*capabilities, **given)
    return {problem["path"]: problem["code"] for problem in caught.value.details["problems"]}
