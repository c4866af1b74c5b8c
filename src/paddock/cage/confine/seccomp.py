"""The seccomp filter of every cage, assembled here as classic BPF so that no library is needed. Pure.

It is a second layer behind the namespaces: the calls it refuses would mostly fail anyway, but each refused call is
kernel code that a plugin can never reach. Some restrictions only exist here: no Unix sockets (a read-only bind does not
stop a connect to a socket file), no set-user-id files (in a writable tree they would outlive the cage), no memfds (they
could be executed, and where no cgroup counts memory, nothing would count theirs), and for the same reason no System V
segments, queues and semaphores.

The program is built from blocks. A block is entered with the value loaded last, and either returns a verdict or falls
through at its end; so jumps only ever skip the rest of their own block and no labels are needed.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from paddock.cage.confine.syscall_numbers import ENOSYS_CALLS, EPERM_CALLS, NEWEST_KNOWN_NUMBER, SYSCALL_NUMBERS

Instruction: TypeAlias = tuple[int, int, int, int]  # code, jump if true, jump if false, operand
Block: TypeAlias = list[Instruction]

MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}  # column of NUMBERS, AUDIT_ARCH_*

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_GREATER, _IF_ANY_BIT = 0x15, 0x25, 0x45

_NUMBER, _MACHINE = 0, 4  # offsets in struct seccomp_data
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_NAMESPACES = 0x7E020000  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
_SET_ID_BITS = 0o6000
_MAY_CREATE = 0o100 | 0o20000000  # O_CREAT, and the bit that makes O_TMPFILE
_MODE_ARGUMENT = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1, "mknodat": 2}
_FAST_OPEN = 0x20000000
_TERMINAL_INJECTION = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _DATAGRAM, _PACKETS = 1, 2, 5
_SOCKET_KIND = 0xF  # without SOCK_NONBLOCK and SOCK_CLOEXEC
_PLAIN_PROTOCOLS = (0, 6, 17)  # the default, TCP, UDP: neither raw, ICMP, SCTP nor MPTCP


def seccomp_program(machine: str) -> bytes:
    """The filter for one architecture (`x86_64`, `aarch64`), as bubblewrap takes it.

    Raises:
        KeyError: The architecture is unknown. A cage without the filter is not built.
    """
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in seccomp_filter(machine))


def seccomp_filter(machine: str) -> Block:
    """The filter as instructions."""
    column, audit = MACHINES[machine]
    numbers = {name: found for name, row in SYSCALL_NUMBERS.items() if (found := row[column]) is not None}

    def check_call(name: str, block: Block) -> Block:
        return _if_equal([numbers[name]], block) if name in numbers else []

    enosys = [numbers[name] for name in ENOSYS_CALLS if name in numbers]
    eperm = [numbers[name] for name in EPERM_CALLS if name in numbers]
    program = [
        _load(_MACHINE),
        *_unless_equal(audit, [_verdict(_KILL)]),  # a 32-bit call has other numbers, and nothing below would match
        _load(_NUMBER),
        # Calls of later kernels; x32 calls too, whose numbers have bit 30 set.
        (_IF_GREATER, 0, 1, NEWEST_KNOWN_NUMBER),
        _refuse(errno.ENOSYS),
        *_if_equal(enosys, [_refuse(errno.ENOSYS)]),
        *_if_equal(eperm, [_refuse(errno.EPERM)]),
    ]
    for name, block in _argument_checks().items():
        program += check_call(name, block)
    return [*program, _verdict(_ALLOW)]


def _argument_checks() -> dict[str, Block]:
    """Checks of calls by their arguments. Each block ends in a verdict."""
    no_new_namespaces = [_argument(0), *_if_any_bit(_NAMESPACES, [_refuse(errno.EPERM)]), _verdict(_ALLOW)]
    rules = {
        "clone": no_new_namespaces,
        "ioctl": [_argument(1), *_if_equal(_TERMINAL_INJECTION, [_refuse(errno.EPERM)]), _verdict(_ALLOW)],
        # Plain Linux, or the query for the current personality.
        "personality": [_argument(0), *_if_equal([0, 0xFFFFFFFF], [_verdict(_ALLOW)]), _refuse(errno.EPERM)],
        "socket": _socket(),
        "socketpair": _socket_pair(),
    }
    for name, mode in _MODE_ARGUMENT.items():
        rules[name] = [*_no_set_id(mode), _verdict(_ALLOW)]
    for name, flags in {"open": 1, "openat": 2}.items():
        # Where no file is created the mode is whatever stood in the register.
        rules[name] = [_argument(flags), *_if_any_bit(_MAY_CREATE, _no_set_id(flags + 1)), _verdict(_ALLOW)]
    for name, flags in {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}.items():
        # TCP Fast Open would connect while sending; only connect may connect.
        rules[name] = [_argument(flags), *_if_any_bit(_FAST_OPEN, [_refuse(errno.EOPNOTSUPP)]), _verdict(_ALLOW)]
    return rules


def _socket() -> Block:
    """Allow TCP and UDP, and netlink queries about network interfaces; no other address family."""
    plain_protocol = [_argument(2), *_if_equal(_PLAIN_PROTOCOLS, [_verdict(_ALLOW)]), _refuse(errno.EPROTONOSUPPORT)]
    internet = [
        _argument(1),
        (_AND, 0, 0, _SOCKET_KIND),
        *_if_equal([_STREAM, _DATAGRAM], plain_protocol),
        _refuse(errno.EPERM),
    ]
    routes = [_argument(2), *_if_equal([0], [_verdict(_ALLOW)]), _refuse(errno.EAFNOSUPPORT)]
    return [
        _argument(0),
        *_if_equal([_INET, _INET6], internet),
        *_if_equal([_NETLINK], routes),
        _refuse(errno.EAFNOSUPPORT),
    ]


def _socket_pair() -> Block:
    """Allow connected pairs only. A datagram socket could be pointed at any visible socket file."""
    connected = [
        _argument(1),
        (_AND, 0, 0, _SOCKET_KIND),
        *_if_equal([_STREAM, _PACKETS], [_verdict(_ALLOW)]),
        _refuse(errno.EPERM),
    ]
    return [_argument(0), *_if_equal([_UNIX], connected), _refuse(errno.EAFNOSUPPORT)]


def _no_set_id(mode: int) -> Block:
    return [_argument(mode), *_if_any_bit(_SET_ID_BITS, [_refuse(errno.EPERM)])]


def _load(offset: int) -> Instruction:
    return (_LOAD, 0, 0, offset)


def _argument(index: int) -> Instruction:
    """Load the low half of an argument: flags, modes and families are ints, and the kernel ignores the high half."""
    return _load(16 + 8 * index)


def _verdict(value: int) -> Instruction:
    return (_RETURN, 0, 0, value)


def _refuse(number: int) -> Instruction:
    return _verdict(_ERRNO | number)


def _if_equal(values: Iterable[int], block: Sequence[Instruction]) -> Block:
    """Run the block where the loaded value is one of these; skip it otherwise."""
    candidates = sorted(set(values))
    last = len(candidates) - 1
    tests = [
        (_IF_EQUAL, last - index, len(block) if index == last else 0, value) for index, value in enumerate(candidates)
    ]
    return [*tests, *block]


def _unless_equal(value: int, block: Sequence[Instruction]) -> Block:
    return [(_IF_EQUAL, len(block), 0, value), *block]


def _if_any_bit(mask: int, block: Sequence[Instruction]) -> Block:
    return [(_IF_ANY_BIT, 0, len(block), mask), *block]
