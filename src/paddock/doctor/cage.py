"""Whether a plugin can be fenced in here: bubblewrap, user namespaces, Landlock, seccomp.

What a cage needs is known to `paddock.cage.probe`, so that doctor and the daemon cannot disagree.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from collections.abc import Mapping

from paddock.cage.bounded import run_bounded
from paddock.cage.kernel import real_root
from paddock.cage.launcher import CageUnavailable
from paddock.cage.probe import FIXES, diagnose_namespace, find_bubblewrap, sysctls
from paddock.doctor.check import Check, Status

_WHY_CAGE = "Every plugin runs in a cage; without one Paddock stays up and starts no plugin."

# Run as a child: become nobody when we are root, make a user namespace, map ourselves, mount something harmless.
# A namespace whose maker gets no powers in it (AppArmor) shows only at the last step.
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
    """Present, new enough, and really able to build a first small cage."""
    try:
        found = find_bubblewrap(environ.get("PATH", os.defpath))
    except CageUnavailable as error:
        return Check("bubblewrap", Status.FAIL, error.message, _WHY_CAGE, error.hint, error.error_code)
    return Check("bubblewrap", Status.OK, f"{found.version} at {found.program}, and a first cage could be built")


def check_user_namespaces() -> Check:
    """Really make one, in a child."""
    who = "nobody" if real_root() else "self"
    ran = run_bounded([sys.executable, "-I", "-S", "-c", _NAMESPACE_PROBE, who], {}, seconds=10)
    step, _, number = ran.first_line.partition(" ")
    if step == "ok":
        return Check("user namespaces", Status.OK, "one could be made, and mounted in")
    if not number.isdigit():
        return Check("user namespaces", Status.FAIL, f"the probe ended oddly: {ran.first_line}", _WHY_CAGE)
    switches = sysctls()
    code = diagnose_namespace(step, int(number), switches)
    reason = f"{step}: {os.strerror(int(number))}"
    fix = FIXES[code]
    if code == "cage.userns_forbidden" and switches.get("kernel/unprivileged_userns_clone") == "0":
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
    return Check("user namespaces", Status.FAIL, reason, _WHY_CAGE, fix, code)


def check_landlock() -> Check:
    """Ask the kernel which version of Landlock it speaks."""
    create_ruleset, version_flag = 444, 1
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(create_ruleset, None, ctypes.c_size_t(0), ctypes.c_uint32(version_flag))
    if version > 0:
        return Check("Landlock", Status.OK, f"ABI version {version}")
    return Check(
        "Landlock",
        Status.WARN,
        f"not available: {os.strerror(ctypes.get_errno())}",
        "It is the second wall around a plugin's files; bubblewrap alone still holds.",
        "echo 'GRUB_CMDLINE_LINUX=\"lsm=landlock,lockdown,yama,integrity,apparmor,bpf\"' | "
        "sudo tee /etc/default/grub.d/landlock.cfg && sudo update-grub && sudo reboot",
    )


def check_seccomp() -> Check:
    """Offer the kernel a filter at address zero: one that knows filters answers that this is a bad address."""
    set_seccomp, filter_mode = 22, 2
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(set_seccomp, ctypes.c_ulong(filter_mode), None, ctypes.c_ulong(0), ctypes.c_ulong(0))
    if ctypes.get_errno() in (errno.EFAULT, errno.EACCES):
        return Check("seccomp", Status.OK, "system calls can be filtered")
    return Check(
        "seccomp",
        Status.FAIL,
        f"system calls cannot be filtered: {os.strerror(ctypes.get_errno())}",
        _WHY_CAGE,
        "zgrep CONFIG_SECCOMP_FILTER /proc/config.gz   # boot a kernel that says y",
    )
