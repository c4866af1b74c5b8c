"""Checks whether a plugin can be caged here: bubblewrap, namespaces, Landlock, seccomp, cgroups, and a real launch.

The requirements of a cage are in `paddock.cage.probe`, so that doctor and the daemon cannot disagree.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from paddock.cage.bounded_process import ProcessLimits, run_bounded
from paddock.cage.cgroups.discovery import (
    RESOURCES,
    CgroupView,
    describe_mechanisms,
    find_crowded_cgroup,
    find_locations,
)
from paddock.cage.errors import CageUnavailable
from paddock.cage.linux import is_host_root
from paddock.cage.plan.compile import HostPaths, compile_cage
from paddock.cage.plan.environment import spawn_environment
from paddock.cage.plan.host_filesystem import DiskFilesystem
from paddock.cage.probe import FIXES, diagnose_namespace, find_bubblewrap, userns_sysctls
from paddock.cage.spec import CageSpec
from paddock.cage.warden.client import open_warden
from paddock.core.action import Action
from paddock.host.doctor.check import Check, CheckStatus
from paddock.host.plugins.launch.launch_command import base_interpreter
from paddock.manifest.read import read_package

_WHY_CAGE = "Every plugin runs in a cage; without one Paddock stays up and starts no plugin."

# Run as a child: become nobody if we are root, make a user namespace, map ourselves, mount something harmless.
# A namespace that gives its creator no capabilities (AppArmor) fails only at the last step.
_NAMESPACE_PROBE = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def step(name, result):
    if result: print(name, ctypes.get_errno()); sys.exit(0)
if sys.argv[1] == "nobody":
    os.setgroups([]); os.setresgid(65534, 65534, 65534); os.setresuid(65534, 65534, 65534)
    libc.prctl(4, 1, 0, 0, 0)
uid = os.getuid()
step("unshare", libc.unshare(0x10000000 | 0x00020000))
try:
    open("/proc/self/uid_map", "w").write(f"{uid} {uid} 1")
except OSError as error:
    print("map", error.errno); sys.exit(0)
step("mount", libc.mount(b"none", b"/", None, 0x4000 | 0x80000, None))
print("ok 0")
"""


def check_bubblewrap(environ: Mapping[str, str]) -> Check:
    """Check that bubblewrap is present, new enough, and can really build a small cage."""
    try:
        bubblewrap = find_bubblewrap(environ.get("PATH", os.defpath))
    except CageUnavailable as error:
        return Check.of_error("bubblewrap", error, _WHY_CAGE)
    return Check(
        "bubblewrap", CheckStatus.OK, f"{bubblewrap.version} at {bubblewrap.program}, and a first cage could be built"
    )


def check_user_namespaces() -> Check:
    """Check that a user namespace can be made, by making one in a child."""
    user = "nobody" if is_host_root() else "self"
    probe = run_bounded([sys.executable, "-I", "-S", "-c", _NAMESPACE_PROBE, user], {}, ProcessLimits(10))
    step, _, error_number = probe.first_line.partition(" ")
    if step == "ok":
        return Check("user namespaces", CheckStatus.OK, "one could be made, and mounted in")
    if not error_number.isdigit():
        return Check("user namespaces", CheckStatus.FAIL, f"the probe ended oddly: {probe.first_line}", _WHY_CAGE)
    sysctls = userns_sysctls()
    code = diagnose_namespace(step, int(error_number), sysctls)
    reason = f"{step}: {os.strerror(int(error_number))}"
    fix = FIXES[code]
    if code == "cage.userns_forbidden" and sysctls.get("kernel/unprivileged_userns_clone") == "0":
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    return Check("user namespaces", CheckStatus.FAIL, reason, _WHY_CAGE, fix, code)


def check_landlock() -> Check:
    """Check which Landlock ABI version the kernel supports."""
    create_ruleset, version_flag = 444, 1
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(create_ruleset, None, ctypes.c_size_t(0), ctypes.c_uint32(version_flag))
    if version > 0:
        return Check("Landlock", CheckStatus.OK, f"ABI version {version}")
    return Check(
        "Landlock",
        CheckStatus.WARN,
        f"not available: {os.strerror(ctypes.get_errno())}",
        "It is the second wall around a plugin's files; bubblewrap alone still holds.",
        "echo 'GRUB_CMDLINE_LINUX=\"lsm=landlock,lockdown,yama,integrity,apparmor,bpf\"' | "
        "sudo tee /etc/default/grub.d/landlock.cfg && sudo update-grub && sudo reboot",
    )


def check_seccomp() -> Check:
    """Check for seccomp by offering a filter at address zero: a kernel with filters answers "bad address"."""
    set_seccomp, filter_mode = 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(set_seccomp, ctypes.c_ulong(filter_mode), None, ctypes.c_ulong(0), ctypes.c_ulong(0))
    if ctypes.get_errno() in (errno.EFAULT, errno.EACCES):
        return Check("seccomp", CheckStatus.OK, "system calls can be filtered")
    return Check(
        "seccomp",
        CheckStatus.FAIL,
        f"system calls cannot be filtered: {os.strerror(ctypes.get_errno())}",
        _WHY_CAGE,
        "zgrep CONFIG_SECCOMP_FILTER /proc/config.gz   # boot a kernel that says y",
    )


_WHY_CGROUPS = (
    "Without delegated cgroups a plugin's limits are kept by rlimits and by watching, which is slower to notice."
)
_WHY_SHARED_CGROUP = (
    "The kernel lets a group hold processes or other groups, not both. Paddock moves itself out of the way, but not"
    " others; so limits are kept by rlimits and by watching, which is slower to notice."
)
_NO_CPU_QUOTA = (
    " A share of the CPU (limits.cpu_weight) becomes niceness, and a CPU quota (limits.cpu_quota) is not kept."
)
_CGROUPS_ACTIONS = (Action.of("daemon.start_delegated"),)


def check_cgroups(view: CgroupView) -> Check:
    """Report which limits the kernel enforces by cgroups, and which need a fallback."""
    locations = find_locations(view)
    mechanisms = ", ".join(
        f"{resource} by {mechanism}" for resource, mechanism in describe_mechanisms(locations).items()
    )
    if all(resource in locations for resource in RESOURCES):
        return Check("cgroups", CheckStatus.OK, mechanisms)
    quota = "" if "cpu" in locations else _NO_CPU_QUOTA
    crowded = find_crowded_cgroup(view)
    if crowded is not None:
        mechanisms = f"{mechanisms}; others share the group {crowded}"
        return Check("cgroups", CheckStatus.WARN, mechanisms, _WHY_SHARED_CGROUP + quota, actions=_CGROUPS_ACTIONS)
    return Check("cgroups", CheckStatus.WARN, mechanisms, _WHY_CGROUPS + quota, actions=_CGROUPS_ACTIONS)


_LAUNCH_CHECK = "cage"
_WHY_LAUNCH = "A plugin would be refused like this by the daemon, too."
_LAUNCH_TIMEOUT_S = 25.0  # longer than the warden's own timeout, shorter than doctor's for a probe
_HELLO_MANIFEST = """
paddock: 1
name: doctor
version: 1.0.0
description: Says one word
runtime: {command: [python3, hello.py]}
"""
_HELLO_OUTPUT = "caged"


def check_cage_launch(environ: Mapping[str, str]) -> Check:
    """Check a cage by starting a plugin in it, reading its output, and seeing its cage removed."""
    path = environ.get("PATH", os.defpath)
    try:
        find_bubblewrap(path)
    except CageUnavailable:
        # Reported by its own check, with the fix.
        return Check(_LAUNCH_CHECK, CheckStatus.WARN, "not tried, since bubblewrap cannot build one")
    with tempfile.TemporaryDirectory(prefix="paddock-doctor-") as folder:
        root = Path(folder).resolve()
        root.chmod(0o755)  # like an installed plugin's: cages of a root daemon run as nobody
        try:
            output = asyncio.run(_launch_and_read(_hello_cage_spec(root), path))
        except CageUnavailable as error:
            return Check.of_error(_LAUNCH_CHECK, error, _WHY_LAUNCH)
        except TimeoutError:
            return Check(
                _LAUNCH_CHECK,
                CheckStatus.FAIL,
                f"a plugin said nothing within {_LAUNCH_TIMEOUT_S:g} s",
                _WHY_LAUNCH,
                code="cage.silent",
            )
    if output.strip() != _HELLO_OUTPUT:
        return Check(
            _LAUNCH_CHECK,
            CheckStatus.FAIL,
            f"a plugin did not run as it should: {output}",
            _WHY_LAUNCH,
            code="cage.broken",
        )
    return Check(_LAUNCH_CHECK, CheckStatus.OK, "a plugin was started in one, and ended")


def _hello_cage_spec(root: Path) -> CageSpec:
    (root / "paddock.yaml").write_text(_HELLO_MANIFEST)
    (root / "hello.py").write_text(f"print({_HELLO_OUTPUT!r})\n")
    manifest = read_package(root).single()
    return compile_cage(
        cage_id="doctor",
        manifest=manifest,
        root=str(root),
        capabilities=(),
        environment=spawn_environment(manifest, str(root), "info"),
        host_paths=HostPaths(python=base_interpreter()),
        filesystem=DiskFilesystem(),
        # Paddock's own interpreter: another one need not be installed.
        command=(base_interpreter(), str(root / "hello.py")),
    )


async def _launch_and_read(spec: CageSpec, path: str) -> str:
    """Return the plugin's output, or its standard error if it wrote none."""
    async with asyncio.timeout(_LAUNCH_TIMEOUT_S), open_warden(path=path) as warden:
        process = await warden.launch(spec)
        try:
            await process.wait()
            # The process has ended: all of its output is in the pipes.
            return (_read_pipe(process.stdout) or _read_pipe(process.stderr)).decode("utf-8", "replace")
        finally:
            for descriptor in (process.stdin, process.stdout, process.stderr):
                os.close(descriptor)


def _read_pipe(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except BlockingIOError:
        return b""
