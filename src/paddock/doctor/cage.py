"""Whether a plugin can be fenced in here: bubblewrap, user namespaces, cgroups, Landlock, seccomp."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from paddock.doctor.bounded import Ran, real_root, run_bounded
from paddock.doctor.check import Check, Status

_OLDEST_BUBBLEWRAP = (0, 8)
_WHY_CAGE = "Every plugin runs in a cage; without one Paddock stays up and starts no plugin."
_INSTALL = "sudo apt install bubblewrap"
_APPARMOR_FIX = (
    "sudo apt install apparmor-profiles && "
    "sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && "
    "sudo systemctl reload apparmor"
)
_CONTAINER_FIX = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …"

# What bubblewrap says on standard error, and what is behind it.
_COMPLAINTS = (
    ("setting up uid map: Permission denied", "cage.userns_apparmor"),
    ("Failed RTM_NEWADDR: Operation not permitted", "cage.userns_apparmor"),
    ("Failed to make / slave", "cage.container_mount"),
    ("Can't mount proc", "cage.container_mount"),
    ("max_*_namespaces exceeded", "cage.userns_disabled"),
    ("No space left on device", "cage.userns_disabled"),
    ("No permissions to creat", "cage.userns_forbidden"),
    ("Creating new namespace failed", "cage.userns_forbidden"),
)
_FIXES = {
    "cage.bwrap_missing": _INSTALL,
    "cage.userns_disabled": "sudo sysctl -w user.max_user_namespaces=15000",
    "cage.userns_forbidden": _CONTAINER_FIX,
    "cage.userns_apparmor": _APPARMOR_FIX,
    "cage.container_mount": _CONTAINER_FIX,
}

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
    program = shutil.which("bwrap", path=environ.get("PATH", os.defpath))
    if program is None:
        return _failed("bubblewrap", "not installed", "cage.bwrap_missing")
    told = run_bounded([program, "--version"], {})
    version = re.search(r"(\d+)\.(\d+)(?:\.\d+)*", told.first_line)
    if told.status != 0 or version is None:
        said = told.first_line or "nothing"
        return Check("bubblewrap", Status.FAIL, f"{program} does not tell its version: {said}", _WHY_CAGE, _INSTALL)
    if (int(version[1]), int(version[2])) < _OLDEST_BUBBLEWRAP:
        needed = ".".join(map(str, _OLDEST_BUBBLEWRAP))
        return Check(
            "bubblewrap",
            Status.FAIL,
            f"{program} is version {version[0]}, and {needed} is needed to keep plugins from making namespaces",
            _WHY_CAGE,
            f"{_INSTALL}   # from a release that has {needed} or newer",
            "cage.bwrap_old",
        )
    if Path(program).stat().st_mode & 0o4000:
        fix = f"sudo chmod u-s {program}"
        return Check("bubblewrap", Status.FAIL, f"{program} is setuid root", _WHY_CAGE, fix, "cage.bwrap_setuid")
    # A root daemon builds cages as nobody, so that is what has to work.
    as_nobody = real_root()
    smoke = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    try:
        ran = run_bounded(smoke, {"PATH": "/usr/bin:/bin"}, seconds=10, as_nobody=as_nobody)
    except OSError as error:
        found = f"{program} cannot be started{' by user nobody' if as_nobody else ''}: {error.strerror}"
        return Check("bubblewrap", Status.FAIL, found, _WHY_CAGE, _INSTALL, "cage.bwrap_failed")
    if ran.status == 0:
        return Check("bubblewrap", Status.OK, f"{version[0]} at {program}, and a first cage could be built")
    return _smoke_failure(program, ran)


def diagnose(complaint: str) -> str:
    """The code for what bubblewrap complained about; `cage.bwrap_failed` when we do not know it."""
    return next((code for words, code in _COMPLAINTS if words in complaint), "cage.bwrap_failed")


def check_user_namespaces() -> Check:
    """Really make one, in a child."""
    who = "nobody" if real_root() else "self"
    ran = run_bounded([sys.executable, "-I", "-S", "-c", _NAMESPACE_PROBE, who], {}, seconds=10)
    step, _, number = ran.first_line.partition(" ")
    if step == "ok":
        return Check("user namespaces", Status.OK, "one could be made, and mounted in")
    if not number.isdigit():
        return Check("user namespaces", Status.FAIL, f"the probe ended oddly: {ran.first_line}", _WHY_CAGE)
    code = diagnose_namespace(step, int(number), _sysctls())
    reason = f"{step}: {os.strerror(int(number))}"
    if code == "cage.userns_forbidden" and _sysctls().get("kernel/unprivileged_userns_clone") == "0":
        fix = "sudo sysctl -w kernel.unprivileged_userns_clone=1"
        return Check("user namespaces", Status.FAIL, reason, _WHY_CAGE, fix, code)
    return _failed("user namespaces", reason, code)


def diagnose_namespace(step: str, error: int, sysctls: Mapping[str, str]) -> str:
    """The code for a namespace that failed at this step with this errno, on a kernel set up like this."""
    if sysctls.get("user/max_user_namespaces") == "0" or error == errno.ENOSPC:
        return "cage.userns_disabled"
    if sysctls.get("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "cage.userns_apparmor"
    return "cage.userns_forbidden" if step == "unshare" else "cage.container_mount"


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


def _smoke_failure(program: str, ran: Ran) -> Check:
    said = ran.first_line or ("no answer within 10 s" if ran.status is None else f"exit status {ran.status}")
    code = diagnose(ran.output)
    if code == "cage.userns_forbidden":
        code = diagnose_namespace("unshare", errno.EPERM, _sysctls())
    if code in _FIXES:
        return _failed("bubblewrap", said, code)
    by_hand = f"{program} --unshare-all --ro-bind / / true"
    return Check("bubblewrap", Status.FAIL, said, _WHY_CAGE, by_hand, code)


def _failed(name: str, found: str, code: str) -> Check:
    return Check(name, Status.FAIL, found, _WHY_CAGE, _FIXES[code], code)


def _sysctls() -> dict[str, str]:
    """The switches that forbid user namespaces, where this kernel has them."""
    names = (
        "user/max_user_namespaces",
        "kernel/unprivileged_userns_clone",
        "kernel/apparmor_restrict_unprivileged_userns",
    )
    found: dict[str, str] = {}
    for name in names:
        path = Path("/proc/sys") / name
        if path.exists():
            found[name] = path.read_text().strip()
    return found
