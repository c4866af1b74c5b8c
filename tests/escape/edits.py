"""How each wall of a cage is taken away for a test.

A wall is taken away by changing lines of a copy of Paddock's own source, so that everything else is as it is in
production and production has no switch for it. Lines that are no longer there fail the test: the table cannot rot.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path

import paddock

CAGE = "cage"


@dataclass(frozen=True, slots=True)
class Edit:
    """In this file of `paddock.cage`, one text in place of another. The text stands there exactly once."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Removal:
    """Walls that are taken away together, and what then gets out."""

    name: str
    edits: tuple[Edit, ...]
    gets_out: tuple[str, ...]
    ways: tuple[str, ...] = ("cold", "warm")  # where it is tried: cold, granted (cold, with two trees), warm
    root: bool = False  # whether the daemon has to be root for it


def without(removal: Removal, folder: Path) -> Path:
    """The sources without these walls: a copy of the cage beside everything else."""
    package = Path(paddock.__file__).parent
    copy = folder / "paddock"
    copy.mkdir()
    for found in package.iterdir():
        if found.name != CAGE:
            (copy / found.name).symlink_to(found)
    # With its bytecode, which stays good for what is not changed: compiling it all would take longer than the test.
    shutil.copytree(package / CAGE, copy / CAGE)
    for edit in removal.edits:
        file = copy / CAGE / edit.file
        Path(cache_from_source(file)).unlink(missing_ok=True)
        text = file.read_text(encoding="utf-8")
        assert text.count(edit.old) == 1, f"{edit.file} has no longer, or more than once: {edit.old}"
        file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
    return folder


NO_FILTER = Edit("confine/seccomp.py", "return [*program, _verdict(_ALLOW)]", "return [_verdict(_ALLOW)]")
UNFILTERED = (
    Edit("plan/bwrap_arguments.py", '        *("--seccomp", str(file(assets.seccomp))),\n', ""),
    Edit("zygote/program.py", '    namespaces.filter_system_calls(bytes.fromhex(request["seccomp"]))\n', ""),
)
NO_LANDLOCK = Edit("confine/sandbox_init.py", "    _restrict(rules)\n    return", "    return")
NO_NETWORK_NAMESPACE = (
    Edit("plan/bwrap_arguments.py", '"--unshare-net", ', ""),
    Edit(
        "zygote/namespaces.py",
        '_check(_libc.unshare(_NEW_MOUNTS | _NEW_NET | _NEW_IPC | _NEW_NAMES | _NEW_CGROUP), "unshare")',
        'return _check(_libc.unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_NAMES | _NEW_CGROUP), "unshare")',
    ),
)
NO_PID_NAMESPACE = (
    Edit("plan/bwrap_arguments.py", '"--unshare-pid", ', ""),
    Edit("plan/bwrap_arguments.py", '"--proc", "/proc"', '"--ro-bind", "/proc", "/proc"'),
)
NO_IPC_NAMESPACE = (
    Edit("plan/bwrap_arguments.py", '"--unshare-ipc", ', ""),
    Edit("zygote/namespaces.py", "_NEW_NET | _NEW_IPC | ", "_NEW_NET | "),
)
NO_NAME_OF_ITS_OWN = (
    Edit("plan/bwrap_arguments.py", '"--unshare-uts", ', ""),
    Edit("plan/bwrap_arguments.py", ', "--hostname", HOST_NAME', ""),
    Edit("zygote/namespaces.py", "_NEW_IPC | _NEW_NAMES | ", "_NEW_IPC | "),
)
NO_SEAL_ON_USER_NAMESPACES = (
    Edit("plan/bwrap_arguments.py", '"--unshare-user", "--disable-userns", uid=NOBODY', '"--unshare-user", uid=NOBODY'),
    Edit("zygote/namespaces.py", '    _write(proc, "sys/user/max_user_namespaces", "0")\n', ""),
)
SHOWN_KEYS = (
    Edit(
        "confine/sandbox_init.py",
        'HIDDEN_PROC_FILES = ("/proc/keys", "/proc/key-users")',
        'HIDDEN_PROC_FILES = ("/proc/key-users",)',
    ),
)
NO_LIMIT_OF_WATCHES = (
    Edit(
        "confine/sandbox_init.py",
        'INOTIFY_LIMITS = {"max_inotify_instances": 16, "max_inotify_watches": 8192}',
        "INOTIFY_LIMITS: dict[str, int] = {}",
    ),
)
KEPT_CAPABILITIES = (
    Edit("plan/bwrap_arguments.py", '"--cap-drop", "ALL"', '"--cap-add", "ALL"'),
    Edit("zygote/namespaces.py", '    _check(_libc.capset(header, bytes(24)), "capset")\n', ""),
)
WRITABLE_PLACES = (
    Edit(
        "plan/bwrap_arguments.py",
        'for path in (*_empty_directories(spec), "/proc", "/dev", "/") for option',
        "for path in () for option",
    ),
    Edit("plan/bwrap_arguments.py", 'for path in (*spec.covers, "/dev", "/") for option', "for path in () for option"),
)
WRITABLE_BINDS = (Edit("plan/bwrap_arguments.py", '"--bind" if bind.writable else "--ro-bind"', '"--bind"'),)
WHOLE_VIEW = (
    # Everything is shown, as if it had been granted.
    Edit(
        "plan/compile.py",
        "    compilation.show_granted(",
        '    compilation.layout.show("/")\n    compilation.show_granted(',
    ),
    Edit(
        "plan/mount_layout.py",
        'NEVER_MOUNTED = ("/proc", "/sys", "/dev", "/run", "/.cage")',
        'NEVER_MOUNTED = ("/proc", "/dev", "/.cage")',
    ),
    Edit("plan/mount_layout.py", '    "/etc/passwd",\n', ""),
)
SHOWN_BY_MISTAKE = Edit(
    # A bind that the rules of Landlock know nothing of.
    "plan/bwrap_arguments.py",
    "    mounts.sort(",
    '    mounts.append(("/var/tmp", 0, ["--ro-bind", "/var/tmp", "/var/tmp"]))\n    mounts.sort(',
)
NO_LIMITS = Edit("confine/sandbox_init.py", "    _lower(limits)\n", "")
NO_GROUP = Edit(
    "cgroups/cgroup.py", "            group.limit(limits)\n        except", "            pass\n        except"
)
NO_SIZE = (
    Edit("plan/bwrap_arguments.py", '"--size", str(limits.tmp_bytes), ', ""),
    Edit("zygote/namespaces.py", 'f"size={tmp_bytes},mode=1777"', '"mode=1777"'),
)
LEFT_OPEN = (
    Edit("confine/sandbox_init.py", "        os.closerange(last_fd + 1, ceiling if ceiling > 0 else 1 << 20)\n", ""),
    Edit("zygote/program.py", "    os.closerange(last_fd + 1, _descriptor_ceiling())\n    return", "    return"),
)
KEPT_ENVIRONMENT = (
    Edit("warden/connection.py", "env={},", "env=None,"),
    Edit("bwrap/launcher.py", "os.execve(argv[0], argv, {})", "os.execve(argv[0], argv, dict(os.environ))"),
    Edit("plan/bwrap_arguments.py", ', "--clearenv"', ""),
)
ROOT_BY_NUMBER = (
    Edit("plan/bwrap_arguments.py", '"--unshare-user", "--disable-userns", uid=NOBODY', '"--unshare-user", uid=0'),
    Edit("zygote/namespaces.py", "CAGE_ID = 65534", "CAGE_ID = 0"),
)
NO_CGROUP_NAMESPACE = (
    Edit("plan/bwrap_arguments.py", ', "--unshare-cgroup-try"', ""),
    Edit("zygote/namespaces.py", " | _NEW_CGROUP)", ")"),
)
STILL_ROOT = Edit("bwrap/launcher.py", "        if as_nobody:\n", "        if False:\n")
UNCOVERED_TREES = (
    Edit("zygote/namespaces.py", "    _small_tmpfs(trees)\n", ""),
    # The trees of these tests lie below /tmp.
    Edit("zygote/namespaces.py", 'for target in ("/tmp", "/dev/shm"):', 'for target in ("/dev/shm",):'),
)
ZYGOTES_PROC = Edit(
    "zygote/namespaces.py",
    '    _mount("proc", "/proc", "proc", _READ_ONLY | _NO_SET_ID | _NO_DEVICES | _NO_EXECUTE)\n',
    "",
)
