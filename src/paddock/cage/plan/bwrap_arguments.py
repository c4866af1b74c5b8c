"""A cage spec as bubblewrap's arguments. Pure: the same spec gives the same arguments, in the same order.

The warden gives them through a file descriptor, adds the two descriptors it talks to bubblewrap with, and runs it with
an empty environment. Nothing of the host is in a cage but what the spec binds.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path

from paddock.cage.confine import sandbox_init
from paddock.cage.confine.init_config import build_init_config
from paddock.cage.confine.seccomp import seccomp_program
from paddock.cage.plan.network_plan import HOST_NAME, etc_files_for
from paddock.cage.spec import NOBODY, BindMount, CageSpec, ResourceLimits

INIT_PATH = "/.cage/trampoline.py"
# Imported and not run, so that its compiled form is used where one fits. The plugin may have a module of that name too.
# Also how a process of ours is known from outside (`warden/leftovers.py`).
INIT_BOOTSTRAP = (
    "import sys; sys.path.insert(0, '/.cage'); import trampoline; sys.path.pop(0); "
    "del sys.modules['trampoline']; trampoline.main()"
)
INIT_CONFIG_PATH = "/.cage/orders"

# A descriptor from which bubblewrap can read these bytes; the caller owns it.
OpenFile = Callable[[bytes], int]
# Where to mount from: the bind's own source, or a staged copy of that mount.
SourceOf = Callable[[BindMount], str]


@dataclass(frozen=True, slots=True)
class CageAssets:
    """What is the same in every cage on this machine; prepared once."""

    seccomp: bytes
    init_files: Mapping[str, bytes]  # its files, by path


def load_cage_assets() -> CageAssets:
    """The filter for this machine, and the trampoline as text and compiled for our own version of Python.

    Raises:
        KeyError: there is no filter for this kind of machine.
    """
    text = Path(sandbox_init.__file__).read_bytes()
    return CageAssets(
        seccomp_program(os.uname().machine),
        {INIT_PATH: text, f"/.cage/__pycache__/trampoline.{sys.implementation.cache_tag}.pyc": _compile_pyc(text)},
    )


def _compile_pyc(text: bytes) -> bytes:
    """A module as Python keeps it, marked to be believed without a look at its source (PEP 552)."""
    code = marshal.dumps(compile(text, INIT_PATH, "exec", dont_inherit=True))
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(text) + code


def build_arguments(
    spec: CageSpec, *, source_of: SourceOf, file: OpenFile, fittings: CageAssets, limits: Mapping[int, int]
) -> list[str]:
    """Everything before `--`. The command after it is `command(spec)`.

    Args:
        spec: The cage.
        source_of: Where each bind is mounted from.
        file: Keeps bytes in a descriptor.
        fittings: What all cages share.
        limits: Resource limits that the process carries, by kernel number (`orders.resource_limits`).
    """
    return [
        *_namespace_options("--unshare-user", "--disable-userns", uid=NOBODY),
        *("--cap-drop", "ALL"),
        *_tmpfs_options(spec.limits),
        *_mount_options(spec, source_of),
        *_file_options(
            {
                **{path: text.encode() for path, text in etc_files_for(spec).items()},
                INIT_CONFIG_PATH: build_init_config(spec, limits),
                **fittings.init_files,
            },
            file,
        ),
        *(word for path in (*spec.covers, "/proc", "/dev", "/") for word in ("--remount-ro", path)),
        *_interpreter_options(spec.environment),
        *("--chdir", spec.directory),
        *("--seccomp", str(file(fittings.seccomp))),
    ]


def build_command(spec: CageSpec) -> list[str]:
    """What bubblewrap executes: the trampoline, which becomes the plugin's program.

    The program's arguments are among its orders: everybody on the machine sees the command line of bubblewrap.
    """
    # Isolated, without site and without writing bytecode: nothing the plugin can place is imported before the walls.
    raising = ["-I", "-S", "-B", "-c", INIT_BOOTSTRAP]
    if spec.python is not None:
        return [spec.python.interpreter, *raising, "python", spec.python.script]
    return [spec.trampoline, *raising, "exec", spec.command[0]]


def build_zygote_arguments(
    spec: CageSpec, *, source_of: SourceOf, file: OpenFile, files: Mapping[str, bytes]
) -> list[str]:
    """The outer cage of a warm interpreter, which makes an inner cage for each plugin that it forks.

    To do so it keeps every power over its own user namespace, and over nothing else: there it is user 0, on the host it
    is the same unprivileged user as ever. Its own system calls are not filtered; the filter is put on each fork.

    Args:
        spec: The interpreter's binds, the tree of plugins, and the command.
        source_of: As for `arguments`.
        file: As for `arguments`.
        files: Programs to place in the cage, by path.
    """
    etc = {path: text.encode() for path, text in etc_files_for(spec).items()}
    return [
        *_namespace_options("--unshare-user", uid=0),
        *("--cap-add", "ALL"),
        *_tmpfs_options(spec.limits),
        *_mount_options(spec, source_of),
        *_file_options({**etc, **files}, file),
        # Not /proc: the kernel refuses a fresh one to a namespace whose visible one is read-only.
        *(word for path in (*spec.covers, "/dev", "/") for word in ("--remount-ro", path)),
        *(word for name, value in sorted(spec.environment.items()) for word in ("--setenv", name, value)),
        *("--chdir", spec.directory),
    ]


def _namespace_options(*user_namespace: str, uid: int) -> list[str]:
    return [
        *user_namespace,
        *("--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
        *("--uid", str(uid), "--gid", str(uid), "--hostname", HOST_NAME),
        *("--die-with-parent", "--new-session", "--clearenv"),
    ]


def _tmpfs_options(limits: ResourceLimits) -> list[str]:
    """The places that a cage has of its own. First, since something of the host may be bound below them."""
    own: list[str] = ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):  # noqa: S108 inside the cage
        own += ["--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", path]
    return own


def _mount_options(spec: CageSpec, source_of: SourceOf) -> list[str]:
    """Binds, covers and links, outer before inner: what is mounted later hides what was there."""
    placed: list[tuple[str, int, list[str]]] = [
        *((bind.target, 0, _bind_options(bind, source_of)) for bind in spec.binds),
        *((path, 1, ["--tmpfs", path]) for path in spec.covers),
        *((link.path, 2, ["--symlink", link.target, link.path]) for link in spec.links),
    ]
    placed.sort(key=lambda place: (place[0].split("/"), place[1]))
    return [word for _, _, words in placed for word in words]


def _bind_options(bind: BindMount, source_of: SourceOf) -> list[str]:
    return ["--bind" if bind.writable else "--ro-bind", source_of(bind), bind.target]


def _file_options(contents: Mapping[str, bytes], file: OpenFile) -> list[str]:
    return [
        word
        for path, content in sorted(contents.items())
        for word in ("--perms", "0444", "--file", str(file(content)), path)
    ]


def _interpreter_options(environment: Mapping[str, str]) -> list[str]:
    """What the trampoline's own interpreter reads before it runs. The rest it sets itself, once the walls stand:
    a variable such as LD_PRELOAD would otherwise put the plugin's code in front of them."""
    early = {name: value for name, value in environment.items() if name in ("LANG", "TZ") or name.startswith("LC_")}
    return [word for name, value in sorted(early.items()) for word in ("--setenv", name, value)]
