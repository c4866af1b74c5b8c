"""Checks whether this host can build a cage; if not, says what is missing and the command that fixes it.

The daemon runs it before its first launch, `paddock doctor` whenever it is run.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paddock.cage.bounded_process import BoundedRun, ProcessLimits, run_bounded
from paddock.cage.errors import CageUnavailable
from paddock.cage.linux import is_descriptor_exhaustion, is_host_root

MIN_BWRAP_VERSION = (0, 8)
_INSTALL = "sudo apt install bubblewrap"
_APPARMOR_FIX = (
    "sudo apt install apparmor-profiles && "
    "sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/ && "
    "sudo systemctl reload apparmor"
)
_CONTAINER_FIX = "docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined …"

PATH_PERMISSION_FIX = "namei -l PATH   # then chmod what its user may not pass; for a root daemon that is nobody, o+rx"

# What bubblewrap writes to stderr, and the code of its cause.
_BWRAP_COMPLAINTS = (
    ("setting up uid map: Permission denied", "cage.userns_apparmor"),
    ("Failed RTM_NEWADDR: Operation not permitted", "cage.userns_apparmor"),
    ("Failed to make / slave", "cage.container_mount"),
    ("Can't mount proc", "cage.container_mount"),
    ("max_*_namespaces exceeded", "cage.userns_disabled"),
    ("No space left on device", "cage.userns_disabled"),
    ("No permissions to creat", "cage.userns_forbidden"),
    ("Creating new namespace failed", "cage.userns_forbidden"),
    ("Can't find source path", "cage.path_missing"),
    ("Permission denied", "cage.path_forbidden"),
)
FIXES = {
    "cage.bwrap_missing": _INSTALL,
    "cage.userns_disabled": "sudo sysctl -w user.max_user_namespaces=15000",
    "cage.userns_forbidden": _CONTAINER_FIX,
    "cage.userns_apparmor": _APPARMOR_FIX,
    "cage.container_mount": _CONTAINER_FIX,
    "cage.path_forbidden": PATH_PERMISSION_FIX,
}


@dataclass(frozen=True, slots=True)
class Bubblewrap:
    """A bubblewrap that has built a first cage here."""

    program: str
    version: str


def find_bubblewrap(path: str | None = None) -> Bubblewrap:
    """Find bubblewrap, and check that it is new enough and can really build a small cage.

    Args:
        path: A search path, as in PATH; None for our own.

    Raises:
        CageUnavailable: It is not usable, with the code of the problem and the command to type.
        OSError: There is no free descriptor or process to check with.
    """
    program = shutil.which("bwrap", path=os.environ.get("PATH", os.defpath) if path is None else path)
    if program is None:
        raise CageUnavailable("bubblewrap is not installed", code="cage.bwrap_missing", hint=_INSTALL)
    version = _version(program)
    if Path(program).stat().st_mode & 0o4000:
        fix = f"sudo chmod u-s {program}"
        raise CageUnavailable(f"{program} is setuid root", code="cage.bwrap_setuid", hint=fix)
    # A root daemon builds cages as user nobody, so that is what has to work.
    as_nobody = is_host_root()
    smoke = [program, "--unshare-all", "--ro-bind", "/", "/", "true"]
    try:
        run = run_bounded(smoke, {"PATH": "/usr/bin:/bin"}, ProcessLimits(10), as_nobody=as_nobody)
    except OSError as error:
        if is_descriptor_exhaustion(error):
            raise
        message = f"{program} cannot be started{' by user nobody' if as_nobody else ''}: {error.strerror}"
        raise CageUnavailable(message, code="cage.bwrap_failed", hint=_INSTALL) from error
    if run.status != 0:
        reason = run.first_line or f"{program} {run.outcome_text}"
        raise setup_error(reason, output=run.text, by_hand=" ".join(smoke))
    return Bubblewrap(program, version)


def setup_error(message: str, *, output: str = "", by_hand: str = "") -> CageUnavailable:
    """Turn bubblewrap's error output into the error to raise.

    Args:
        message: Its first line.
        output: All of it, where there is more.
        by_hand: The command that reproduces the failure, for an unknown message.
    """
    code = diagnose_bwrap(output or message)
    if code == "cage.userns_forbidden":
        code = diagnose_namespace("unshare", errno.EPERM, userns_sysctls())
    return CageUnavailable(message, code=code, hint=FIXES.get(code, by_hand))


def diagnose_bwrap(output: str) -> str:
    """The code for bubblewrap's error output; `cage.bwrap_failed` when it is unknown."""
    return next((code for pattern, code in _BWRAP_COMPLAINTS if pattern in output), "cage.bwrap_failed")


def diagnose_namespace(step: str, error: int, sysctls: Mapping[str, str]) -> str:
    """The code for a namespace step that failed with this errno, given the kernel's sysctls."""
    if sysctls.get("user/max_user_namespaces") == "0" or error == errno.ENOSPC:
        return "cage.userns_disabled"
    if sysctls.get("kernel/apparmor_restrict_unprivileged_userns") == "1":
        return "cage.userns_apparmor"
    return "cage.userns_forbidden" if step == "unshare" else "cage.container_mount"


def userns_sysctls() -> dict[str, str]:
    """Read the sysctls that forbid user namespaces, where this kernel has them."""
    names = (
        "user/max_user_namespaces",
        "kernel/unprivileged_userns_clone",
        "kernel/apparmor_restrict_unprivileged_userns",
    )
    sysctls: dict[str, str] = {}
    for name in names:
        path = Path("/proc/sys") / name
        if path.exists():
            sysctls[name] = path.read_text().strip()
    return sysctls


def _version(program: str) -> str:
    run: BoundedRun = run_bounded([program, "--version"], {})
    version = re.search(r"(\d+)\.(\d+)(?:\.\d+)*", run.first_line)
    if run.status != 0 or version is None:
        message = f"{program} does not tell its version: {run.first_line or 'nothing'}"
        raise CageUnavailable(message, code="cage.bwrap_failed", hint=_INSTALL)
    if (int(version[1]), int(version[2])) < MIN_BWRAP_VERSION:
        needed = ".".join(map(str, MIN_BWRAP_VERSION))
        raise CageUnavailable(
            f"{program} is version {version[0]}, and {needed} is needed to keep plugins from making namespaces",
            code="cage.bwrap_old",
            hint=f"{_INSTALL}   # from a release that has {needed} or newer",
        )
    return version[0]
