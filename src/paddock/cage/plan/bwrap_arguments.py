"""Turns a cage spec into bubblewrap's arguments. Pure: the same spec gives the same arguments, in the same order.

The warden passes them through a file descriptor, adds its two control descriptors, and runs bubblewrap with
an empty environment. A cage contains nothing of the host but what the spec binds.
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
# Imported and not run as a script, so that its compiled form is used where one fits. The plugin may have a module of
# that name too. Also identifies a process of ours from outside (`warden/cleanup.py`).
INIT_BOOTSTRAP = (
    "import sys; sys.path.insert(0, '/.cage'); import trampoline; sys.path.pop(0); "
    "del sys.modules['trampoline']; trampoline.main()"
)
INIT_CONFIG_PATH = "/.cage/orders"

# Gives a descriptor from which bubblewrap can read these bytes; the caller owns it.
OpenFile = Callable[[bytes], int]
# Gives the path to mount from: the bind's own source, or a staged copy of that mount.
SourceOf = Callable[[BindMount], str]


@dataclass(frozen=True, slots=True)
class CageAssets:
    """Files that are the same in every cage on this host; prepared once."""

    seccomp: bytes
    init_files: Mapping[str, bytes]  # the files of `sandbox_init`, by path


def load_cage_assets() -> CageAssets:
    """Load the seccomp filter for this machine, and `sandbox_init` as source and compiled for our own Python version.

    Raises:
        KeyError: There is no filter for this architecture.
    """
    text = Path(sandbox_init.__file__).read_bytes()
    return CageAssets(
        seccomp_program(os.uname().machine),
        {INIT_PATH: text, f"/.cage/__pycache__/trampoline.{sys.implementation.cache_tag}.pyc": _compile_pyc(text)},
    )


def _compile_pyc(text: bytes) -> bytes:
    """Compile a module to an unchecked hash-based .pyc (PEP 552)."""
    code = marshal.dumps(compile(text, INIT_PATH, "exec", dont_inherit=True))
    return MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(text) + code


def build_arguments(
    spec: CageSpec, *, source_of: SourceOf, file: OpenFile, assets: CageAssets, limits: Mapping[int, int]
) -> list[str]:
    """Build everything before `--`. The command after it is `build_command(spec)`.

    Args:
        spec: The cage.
        source_of: Where each bind is mounted from.
        file: Puts bytes into a descriptor.
        assets: Files that all cages share.
        limits: Rlimits of the process, by kernel number (`init_config.process_rlimits`).
    """
    return [
        *_namespace_options("--unshare-user", "--disable-userns", uid=NOBODY),
        *("--cap-drop", "ALL"),
        *_tmpfs_options(spec.limits),
        *(option for path in sandbox_init.HIDDEN_PROC_FILES for option in ("--ro-bind", "/dev/null", path)),
        *_mount_options(spec, source_of),
        *_file_options(
            {
                **{path: text.encode() for path, text in etc_files_for(spec).items()},
                INIT_CONFIG_PATH: build_init_config(spec, limits),
                **assets.init_files,
            },
            file,
        ),
        *_stand_in_options(spec, file),
        *(option for path in (*_empty_directories(spec), "/proc", "/dev", "/") for option in ("--remount-ro", path)),
        *_interpreter_options(spec.environment),
        *("--chdir", spec.directory),
        *("--seccomp", str(file(assets.seccomp))),
    ]


def build_command(spec: CageSpec) -> list[str]:
    """The command that bubblewrap executes: `sandbox_init`, which becomes the plugin's program.

    The program's arguments are in its configuration file: every user on the host sees bubblewrap's command line.
    """
    # Isolated, without site and without writing bytecode: no file of the plugin is imported before the restrictions.
    init_arguments = ["-I", "-S", "-B", "-c", INIT_BOOTSTRAP]
    if spec.python is not None:
        return [spec.python.interpreter, *init_arguments, "python", spec.python.script]
    return [spec.trampoline, *init_arguments, "exec", spec.command[0]]


def build_zygote_arguments(
    spec: CageSpec, *, source_of: SourceOf, file: OpenFile, files: Mapping[str, bytes]
) -> list[str]:
    """Build the arguments for the outer cage of a zygote, which makes an inner cage for each plugin that it forks.

    To do so it keeps every capability over its own user namespace, and over nothing else: there it is user 0, on the
    host
    it is the same unprivileged user as ever. Its own system calls are not filtered; the filter is put on each fork.

    Args:
        spec: The interpreter's binds, the directory of plugins, and the command.
        source_of: As for `build_arguments`.
        file: As for `build_arguments`.
        files: Programs to place in the cage, by path.
    """
    etc = {path: text.encode() for path, text in etc_files_for(spec).items()}
    return [
        *_namespace_options("--unshare-user", uid=0),
        *("--cap-add", "ALL"),
        *_tmpfs_options(spec.limits),
        *_mount_options(spec, source_of),
        *_file_options({**etc, **files}, file),
        # Not /proc: the kernel refuses a fresh procfs to a namespace whose visible one is read-only.
        *(option for path in (*spec.covers, "/dev", "/") for option in ("--remount-ro", path)),
        *(option for name, value in sorted(spec.environment.items()) for option in ("--setenv", name, value)),
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
    """The cage's own file systems. They come first, since a bind may be mounted below them."""
    options: list[str] = ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):  # noqa: S108 inside the cage
        options += ["--size", str(limits.tmp_bytes), "--perms", "1777", "--tmpfs", path]
    return options


def _mount_options(spec: CageSpec, source_of: SourceOf) -> list[str]:
    """Binds, covers and links, outer before inner: a later mount hides what was there."""
    mounts: list[tuple[str, int, list[str]]] = [
        *((bind.target, 0, _bind_options(bind, source_of)) for bind in spec.binds),
        *((path, 1, ["--tmpfs", path]) for path in _empty_directories(spec)),
        *((link.path, 2, ["--symlink", link.target, link.path]) for link in spec.links),
    ]
    mounts.sort(key=lambda mount: (mount[0].split("/"), mount[1]))
    return [option for _, _, options in mounts for option in options]


def _empty_directories(spec: CageSpec) -> list[str]:
    stand_ins = spec.learning.stand_ins if spec.learning else ()
    return [*spec.covers, *(one.path for one in stand_ins if one.kind == "directory")]


def _stand_in_options(spec: CageSpec, file: OpenFile) -> list[str]:
    if spec.learning is None:
        return []
    from paddock.cage.plan.idle_program import idle_program

    contents = {"file": ("0444", b""), "program": ("0555", idle_program(os.uname().machine))}
    return [
        option
        for one in spec.learning.stand_ins
        if one.kind in contents
        for permissions, content in [contents[one.kind]]
        for option in ("--perms", permissions, "--file", str(file(content)), one.path)
    ]


def _bind_options(bind: BindMount, source_of: SourceOf) -> list[str]:
    return ["--bind" if bind.writable else "--ro-bind", source_of(bind), bind.target]


def _file_options(contents: Mapping[str, bytes], file: OpenFile) -> list[str]:
    return [
        option
        for path, content in sorted(contents.items())
        for option in ("--perms", "0444", "--file", str(file(content)), path)
    ]


def _interpreter_options(environment: Mapping[str, str]) -> list[str]:
    """Variables that the interpreter of `sandbox_init` reads at start. It sets the others itself, once restricted: a
    variable such as LD_PRELOAD would otherwise run the plugin's code before that.
    """
    early = {name: value for name, value in environment.items() if name in ("LANG", "TZ") or name.startswith("LC_")}
    return [option for name, value in sorted(early.items()) for option in ("--setenv", name, value)]
