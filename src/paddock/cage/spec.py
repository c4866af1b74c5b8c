"""A cage as a value: everything that decides what one plugin process sees and may use. No file is touched here.

The daemon makes a spec from granted capabilities (`plan/compile.py`); the warden builds the cage from it and adds
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from paddock.net.egress import EgressGrant

MIB = 1024 * 1024
# The uid and gid of every plugin: always inside the cage, and on the host too where the daemon is root.
NOBODY = 65534
SDK_PATH = "/.cage/lib"  # not below /usr: a grant may show all of that, and then nothing can be added to it
WORKER_SCRIPT = f"{SDK_PATH}/paddock_sdk/worker/run.py"  # imports and calls a plugin that is Python code


@dataclass(frozen=True, slots=True)
class BindMount:
    """A file or directory of the host, seen inside at `target`."""

    source: str  # resolved: contains no symlink
    target: str
    writable: bool = False
    plugin_owned: bool = False  # a directory of the plugin's own: its user owns the files there


@dataclass(frozen=True, slots=True)
class SymbolicLink:
    """A symbolic link that the cage has of its own."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Resource limits of one cage."""

    memory_bytes: int = 512 * MIB
    pids: int = 100
    cpu_weight: int = 256
    cpu_quota: float | None = None  # in CPUs; None is no hard limit
    tmp_bytes: int = 64 * MIB  # each of /tmp and /dev/shm
    open_files: int = 512
    write_bytes: int = 256 * MIB  # the largest single file


@dataclass(frozen=True, slots=True)
class PythonScript:
    """A command that is only an interpreter and a script, so that a zygote can run it."""

    interpreter: str
    script: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StandIn:
    """Something empty and read-only in place of a file of the host that the plugin looked for and may not see.

    A program does nothing and succeeds.
    """

    path: str
    kind: Literal["directory", "file", "program"]


@dataclass(frozen=True, slots=True)
class Learning:
    """Makes a cage a learning cage: it allows nothing more, and what the plugin tries is observed.

    Attributes:
        stand_ins: Shown to the plugin, so that it goes on and its next need can be seen.
        network: Whether each name and address leads to the egress proxy, which refuses and records what is not granted.
    """

    stand_ins: tuple[StandIn, ...] = ()
    network: bool = True


@dataclass(frozen=True, slots=True)
class CageSpec:
    """One cage and the program in it."""

    cage_id: str
    plugin: str  # the plugin's name, for records
    command: tuple[str, ...]  # as the cage sees it; the first is absolute
    directory: str  # the working directory, as the cage sees it
    environment: Mapping[str, str]
    binds: tuple[BindMount, ...] = ()
    links: tuple[SymbolicLink, ...] = ()
    covers: tuple[str, ...] = ()  # directories inside a bind that are shown empty, because they are the host's own
    executables: tuple[str, ...] = ()  # the only files that may be executed, as the cage sees them
    # The host's Python that runs `sandbox_init` before the command, as the cage sees it. Unless it is among the
    # executables too, it can be neither run nor read once the restrictions apply.
    trampoline: str = "/usr/bin/python3"
    network: tuple[EgressGrant, ...] = ()
    limits: ResourceLimits = ResourceLimits()
    python: PythonScript | None = None
    artifacts: bool = False  # whether the plugin gets two more pipes, for artifacts
    tenant: str = "default"  # for records
    learning: Learning | None = None

    def to_json(self) -> dict[str, Any]:
        """The spec as JSON data, for the socket between the daemon and the warden."""
        return {
            "cage_id": self.cage_id,
            "plugin": self.plugin,
            "command": list(self.command),
            "directory": self.directory,
            "environment": dict(self.environment),
            "binds": [[bind.source, bind.target, bind.writable, bind.plugin_owned] for bind in self.binds],
            "links": [[link.path, link.target] for link in self.links],
            "covers": list(self.covers),
            "executables": list(self.executables),
            "trampoline": self.trampoline,
            "network": [[reach.host, reach.port] for reach in self.network],
            "limits": {name: getattr(self.limits, name) for name in ResourceLimits.__slots__},
            "python": self.python
            and {
                "interpreter": self.python.interpreter,
                "script": self.python.script,
                "arguments": list(self.python.arguments),
            },
            "artifacts": self.artifacts,
            "tenant": self.tenant,
            "learning": self.learning
            and {
                "stand_ins": [[one.path, one.kind] for one in self.learning.stand_ins],
                "network": self.learning.network,
            },
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> CageSpec:
        """The spec from the data that `to_json` gave. Both ends are of one version, so nothing is tolerated.

        Raises:
            KeyError, TypeError: The data is no spec.
        """
        python, learning = data["python"], data["learning"]
        return cls(
            cage_id=data["cage_id"],
            plugin=data["plugin"],
            command=tuple(data["command"]),
            directory=data["directory"],
            environment=dict(data["environment"]),
            binds=tuple(BindMount(*bind) for bind in data["binds"]),
            links=tuple(SymbolicLink(*link) for link in data["links"]),
            covers=tuple(data["covers"]),
            executables=tuple(data["executables"]),
            trampoline=data["trampoline"],
            network=tuple(EgressGrant(*reach) for reach in data["network"]),
            limits=ResourceLimits(**data["limits"]),
            python=python and PythonScript(python["interpreter"], python["script"], tuple(python["arguments"])),
            artifacts=data["artifacts"],
            tenant=data["tenant"],
            learning=learning and Learning(tuple(StandIn(*one) for one in learning["stand_ins"]), learning["network"]),
        )


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """How a caged process ended."""

    code: int | None
    signal: int | None = None
    cause: str = ""  # why the host or the kernel killed it, e.g. `memory`; empty when it ended by itself
    details: Mapping[str, Any] = field(default_factory=dict[str, Any])
