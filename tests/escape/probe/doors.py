"""Every system call that a cage refuses, knocked at: an answer other than the filter's means that it was reached.

The arguments make no sense on purpose. A call that gets through does nothing but say so.
"""

from __future__ import annotations

import errno
import os

from .trying import Attempt, Facts, Room, call

room = Room()

_BAD = -1
# Where zeros would be refused for want of privilege, or mean something: arguments that are refused for being nonsense.
ARGUMENTS: dict[str, tuple[int, ...]] = {
    "clock_adjtime": (9999, 0),
    "clock_settime": (9999, 0),
    "keyctl": (9999,),
    "mbind": (0, 0, 9999),
    "migrate_pages": (0x7FFFFFF,),
    "move_mount": (_BAD, 0, _BAD, 0, 0x7FFFFFFF),
    "name_to_handle_at": (_BAD, 0, 0, 0, 0x7FFFFFFF),
    "personality": (0x0040000,),
    "pidfd_getfd": (_BAD, 0, 0),
    "process_madvise": (_BAD, 0, 0, 0, 0),
    "process_vm_readv": (1, 0, 0, 0, 0, 0x7FFF),
    "process_vm_writev": (1, 0, 0, 0, 0, 0x7FFF),
    "ptrace": (9999, 0x7FFFFFF),
    "set_mempolicy": (9999,),
    "setns": (_BAD, 0),
    "settimeofday": (1, 1),
    "adjtimex": (1,),
    "syslog": (9999, 0, 0),
    "umount2": (0, 0x7FFFFFFF),
    "unshare": (0,),
    "userfaultfd": (1,),
    "perf_event_open": (1, 0, -1, -1, 0),
    "reboot": (1, 2, 3, 0),
    "kcmp": (0x7FFFFFF, 0x7FFFFFF, 0, 0, 0),
    "fanotify_mark": (_BAD, 0, 0, 0, 0),
    "quotactl_fd": (_BAD, 0, 0, 0),
}


def _door(name: str) -> Attempt:
    def knock(facts: Facts) -> str | None:
        number, refusal = facts["numbers"][name], facts["refusals"][name]
        if number is None:
            return None
        try:
            answer = str(call(number, *ARGUMENTS.get(name, ())))
        except OSError as error:
            if errno.errorcode[error.errno or 0] == refusal:
                raise
            answer = errno.errorcode[error.errno or 0]
        return f"the kernel answered {answer}"

    return knock


def doors(names: list[str]) -> dict[str, Attempt]:
    """The attempts for these calls; the host says which there are."""
    return {f"call {name}": _door(name) for name in names}


@room.attempt("make a system call of another architecture")
def _(facts: Facts) -> str | None:
    # The same call in the numbers that 64-bit programs with short pointers use.
    x32 = 0x40000000
    return f"pid {call(x32 | 39)}" if os.uname().machine == "x86_64" else None


@room.attempt("make a system call newer than any we know")
def _(facts: Facts) -> str | None:
    try:
        call(facts["newest"] + 1)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            raise
    return "the kernel has it"
