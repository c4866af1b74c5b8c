"""The seccomp filter for the process of one call, as classic BPF. Pure.

It refuses every system call that would outlast the process or reach another one; see `sandbox.py`. Where a call is
harmless if it targets the process itself, its argument is checked. The cage has its own filter in addition, which
refuses more.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of the tables below, AUDIT_ARCH_*
NEWEST_SYSCALL = 462  # mseal, the last call reviewed; later ones get ENOSYS, and so do x32's, which have bit 30

# name: (x86_64, aarch64); None where that machine has no such call.
SyscallNumbers = dict[str, tuple[int | None, int | None]]

# Answered with ENOSYS: programs fall back to an older call.
UNAVAILABLE_SYSCALLS: SyscallNumbers = {
    "clone3": (435, 435),  # its flags are in memory, where a filter cannot see them
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
}
REFUSED_SYSCALLS: SyscallNumbers = {
    # other processes
    "fork": (57, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "setns": (308, 268),
    "setpgid": (109, 154),
    "setpriority": (141, 140),
    "setsid": (112, 157),
    "tkill": (200, 130),
    "unshare": (272, 97),
    "vfork": (58, None),
    # objects kept by the kernel
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgget": (68, 186),
    "request_key": (249, 218),
    "semget": (64, 190),
    "shmget": (29, 194),
    "socket": (41, 198),
    # file metadata, which Landlock does not cover
    "chmod": (90, None),
    "chown": (92, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "fremovexattr": (199, 16),
    "fsetxattr": (190, 7),
    "futimesat": (261, None),
    "lchown": (94, None),
    "lremovexattr": (198, 15),
    "lsetxattr": (189, 6),
    "removexattr": (197, 14),
    "setxattr": (188, 5),
    "truncate": (76, 45),
    "utime": (132, None),
    "utimensat": (280, 88),
    "utimes": (235, None),
}
# Allowed only for this process, by the first argument.
OWN_PID_SYSCALLS: SyscallNumbers = {
    "kill": (62, 129),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "tgkill": (234, 131),
}
# Likewise, and 0 means this process too.
OWN_OR_ZERO_PID_SYSCALLS: SyscallNumbers = {
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
}
CLONE, FCNTL, IOCTL = (56, 220), (72, 25), (16, 29)
CLONE_THREAD = 0x10000  # CLONE_THREAD
# Duplicates, flags, locks, pipe sizes, seals. Others set a signal target, or leave a mark on a file.
FCNTL_COMMANDS = (*range(8), 36, 37, 38, *range(1030, 1035))
# Terminal attributes and width; bytes available; non-blocking mode; close-on-exec.
IOCTL_REQUESTS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)

_LOAD, _RETURN, _IF_EQUAL, _IF_GREATER, _IF_ANY_BIT = 0x20, 0x06, 0x15, 0x25, 0x45
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


def filter_program(machine: str, pid: int) -> bytes:
    """Return the filter for one process on one architecture, eight bytes per instruction."""
    column, audit = MACHINES[machine]

    def numbers(table: SyscallNumbers) -> list[int]:
        return [found for row in table.values() if (found := row[column]) is not None]

    program: list[Instruction] = [
        (_LOAD, 0, 0, _MACHINE),
        (_IF_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _KILL),  # 32-bit calls have other numbers: nothing below would apply
        (_LOAD, 0, 0, _NUMBER),
        (_IF_GREATER, 0, 1, NEWEST_SYSCALL),
        _return_errno(errno.ENOSYS),
        *_if_one_of(numbers(UNAVAILABLE_SYSCALLS), [_return_errno(errno.ENOSYS)]),
        *_if_one_of(numbers(REFUSED_SYSCALLS), [_return_errno(errno.EPERM)]),
        *_if_one_of(numbers(OWN_PID_SYSCALLS), _allow_only(0, [pid], errno.EPERM)),
        *_if_one_of(numbers(OWN_OR_ZERO_PID_SYSCALLS), _allow_only(0, [0, pid], errno.EPERM)),
        *_if_one_of([FCNTL[column]], _allow_only(1, FCNTL_COMMANDS, errno.EPERM)),
        *_if_one_of([IOCTL[column]], _allow_only(1, IOCTL_REQUESTS, errno.ENOTTY)),
        *_if_one_of(
            [CLONE[column]], [_load_argument(0), (_IF_ANY_BIT, 1, 0, CLONE_THREAD), _return_errno(errno.EPERM)]
        ),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(
        code.to_bytes(2, "little") + bytes((yes, no)) + operand.to_bytes(4, "little")
        for code, yes, no, operand in program
    )


def _allow_only(argument: int, values: Iterable[int], error: int) -> list[Instruction]:
    return [_load_argument(argument), *_if_one_of(values, [(_RETURN, 0, 0, _ALLOW)]), _return_errno(error)]


def _load_argument(index: int) -> Instruction:
    """Load the low half of an argument: pids, commands and flags are ints, and the kernel ignores the high half."""
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * index)


def _return_errno(error: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | error)


def _if_one_of(values: Iterable[int], block: list[Instruction]) -> list[Instruction]:
    """Run the block if the loaded value is one of these; skip it otherwise."""
    ordered = sorted(values)
    last = len(ordered) - 1
    tests = [
        (_IF_EQUAL, last - index, len(block) if index == last else 0, value) for index, value in enumerate(ordered)
    ]
    return [*tests, *block]
