"""The system call filter, judged by running it: a small interpreter for the few instructions it is made of."""

from __future__ import annotations

import errno
import socket
from typing import Final

import pytest
from tests.cage.refused_calls import REFUSALS, REFUSED_NUMBERS

from paddock.cage.confine.seccomp import MACHINES, Instruction, seccomp_filter, seccomp_program
from paddock.cage.confine.syscall_numbers import ENOSYS_CALLS, EPERM_CALLS, NEWEST_KNOWN_NUMBER, SYSCALL_NUMBERS

ALLOW, KILL = "allow", "kill"
X86: Final = "x86_64"
NAMED_ARGUMENTS = {name for name in SYSCALL_NUMBERS if name not in (*ENOSYS_CALLS, *EPERM_CALLS)}


def verdict(program: list[Instruction], number: int, arguments: tuple[int, ...], audit: int) -> str:
    """What the kernel would answer to this call."""
    data = {0: number & 0xFFFFFFFF, 4: audit}
    for index, value in enumerate((*arguments, 0, 0, 0, 0, 0, 0)[:6]):
        data[16 + 8 * index], data[20 + 8 * index] = value & 0xFFFFFFFF, (value >> 32) & 0xFFFFFFFF
    loaded = at = 0
    while True:
        code, if_true, if_false, operand = program[at]
        at += 1
        if code == 0x06:
            return {0x7FFF0000: ALLOW, 0x80000000: KILL}.get(operand) or errno.errorcode[operand & 0xFFFF]
        if code == 0x20:
            loaded = data[operand]
        elif code == 0x54:
            loaded &= operand
        else:
            holds = {0x15: loaded == operand, 0x25: loaded > operand, 0x45: bool(loaded & operand)}[code]
            at += if_true if holds else if_false


def answer(name: str, *arguments: int, machine: str = X86) -> str:
    column, audit = MACHINES[machine]
    number = SYSCALL_NUMBERS[name][column]
    assert number is not None, f"{machine} has no {name}"
    return verdict(seccomp_filter(machine), number, arguments, audit)


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_what_is_forbidden_is_refused_and_what_is_new_does_not_exist(machine: str) -> None:
    column, audit = MACHINES[machine]
    program = seccomp_filter(machine)
    for name, numbers in REFUSED_NUMBERS.items():
        if (number := numbers[column]) is not None:
            assert verdict(program, number, (), audit) == REFUSALS[name], name
    assert {*ENOSYS_CALLS, *EPERM_CALLS} == REFUSALS.keys(), "what the filter refuses and what is tried here"


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_every_other_call_is_allowed_up_to_the_newest_we_know(machine: str) -> None:
    column, audit = MACHINES[machine]
    mentioned = {row[column] for row in SYSCALL_NUMBERS.values()}
    program = seccomp_filter(machine)
    for number in set(range(NEWEST_KNOWN_NUMBER + 1)) - mentioned:
        assert verdict(program, number, (), audit) == ALLOW
    for number in (NEWEST_KNOWN_NUMBER + 1, 500, 0x40000000, 0x40000000 | 41, 0xFFFFFFFF):
        assert verdict(program, number, (), audit) == "ENOSYS", "later kernels, and x32"


def test_a_call_in_the_numbers_of_another_machine_ends_the_process() -> None:
    i386 = 0x40000003
    assert verdict(seccomp_filter(X86), 1, (), i386) == KILL
    assert verdict(seccomp_filter(X86), 1, (), MACHINES["aarch64"][1]) == KILL


def test_no_namespace_can_be_made() -> None:
    thread = 0x3D0F00  # what a new thread asks for
    assert answer("clone", thread) == ALLOW
    assert answer("clone", 17) == ALLOW, "fork"
    for bit in (0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000):
        assert answer("clone", thread | bit) == "EPERM"
    assert answer("clone3") == "ENOSYS", "its flags are in memory, where a filter cannot look"


@pytest.mark.parametrize(
    ("family", "kind", "protocol", "expected"),
    [
        (socket.AF_INET, socket.SOCK_STREAM, 0, ALLOW),
        (socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK, 6, ALLOW),
        (socket.AF_INET6, socket.SOCK_DGRAM, 17, ALLOW),
        (socket.AF_NETLINK, socket.SOCK_RAW, 0, ALLOW),
        (socket.AF_INET, socket.SOCK_RAW, 1, "EPERM"),
        (socket.AF_INET, socket.SOCK_DGRAM, 1, "EPROTONOSUPPORT"),
        (socket.AF_INET, socket.SOCK_STREAM, 132, "EPROTONOSUPPORT"),
        (socket.AF_INET, socket.SOCK_STREAM, 262, "EPROTONOSUPPORT"),
        (socket.AF_INET, socket.SOCK_SEQPACKET, 0, "EPERM"),
        (socket.AF_NETLINK, socket.SOCK_RAW, 12, "EAFNOSUPPORT"),
        (socket.AF_UNIX, socket.SOCK_STREAM, 0, "EAFNOSUPPORT"),
        (socket.AF_PACKET, socket.SOCK_RAW, 0, "EAFNOSUPPORT"),
        (socket.AF_VSOCK, socket.SOCK_STREAM, 0, "EAFNOSUPPORT"),
        (socket.AF_ALG, socket.SOCK_SEQPACKET, 0, "EAFNOSUPPORT"),
    ],
)
def test_sockets_are_tcp_and_udp_and_nothing_else(family: int, kind: int, protocol: int, expected: str) -> None:
    assert answer("socket", family, kind, protocol) == expected
    # The kernel reads ints: what stands in the upper half of a register must not matter.
    assert answer("socket", family | 1 << 32, kind | 5 << 32, protocol | 7 << 32) == expected


def test_a_pair_of_unix_sockets_reaches_nobody_else_and_is_allowed() -> None:
    assert answer("socketpair", socket.AF_UNIX, socket.SOCK_STREAM) == ALLOW
    assert answer("socketpair", socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC) == ALLOW
    assert answer("socketpair", socket.AF_UNIX, socket.SOCK_DGRAM) == "EPERM", "it could be pointed elsewhere"
    assert answer("socketpair", socket.AF_UNIX, socket.SOCK_RAW | 1 << 32) == "EPERM", "another name for datagrams"
    assert answer("socketpair", socket.AF_INET, socket.SOCK_STREAM) == "EAFNOSUPPORT"


def test_sending_does_not_connect() -> None:
    fast_open = 0x20000000
    for name, index in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
        assert answer(name, *[0] * index, 0) == ALLOW
        assert answer(name, *[0] * index, fast_open | 0x4000) == errno.errorcode[errno.EOPNOTSUPP]


@pytest.mark.parametrize("machine", sorted(MACHINES))
def test_no_file_becomes_set_user_id_or_set_group_id(machine: str) -> None:
    column, _ = MACHINES[machine]
    by_mode = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "creat": 1, "mknod": 1, "mknodat": 2}
    for name, index in by_mode.items():
        if SYSCALL_NUMBERS[name][column] is not None:
            assert answer(name, *[0] * index, 0o1777, machine=machine) == ALLOW
            for mode in (0o4755, 0o2755, 0o6000, 0o104755):
                assert answer(name, *[0] * index, mode, machine=machine) == "EPERM", name


def test_opening_with_a_set_id_mode_is_refused_only_where_a_file_is_made() -> None:
    create, temporary, leftovers = 0o101, 0o20200002, 0o6777
    assert answer("openat", 0, 0, 0, leftovers) == ALLOW, "nothing is created, so the mode is no mode"
    assert answer("open", 0, 0, leftovers) == ALLOW
    for flags in (create, temporary):
        assert answer("openat", 0, 0, flags, 0o644) == ALLOW
        assert answer("openat", 0, 0, flags, leftovers) == "EPERM"
        assert answer("open", 0, flags, 0o4755) == "EPERM"
    assert answer("openat2") == "ENOSYS", "its mode is in memory"


def test_there_are_no_files_without_a_name_and_terminals_cannot_be_typed_into() -> None:
    assert answer("memfd_create", 0, 0x8) == answer("shmget", 0, 1, 0o1600) == "ENOSYS"
    assert answer("msgget", 0, 0o1600) == answer("semget", 0, 1, 0o1600) == "ENOSYS"
    assert answer("ioctl", 0, 0x5401) == ALLOW
    assert answer("ioctl", 0, 0x5412) == answer("ioctl", 0, 0x541C) == "EPERM"
    assert answer("ioctl", 0, 1 << 32 | 0x5412) == "EPERM"


def test_only_plain_linux_can_be_asked_for() -> None:
    assert answer("personality", 0) == answer("personality", 0xFFFFFFFF) == ALLOW
    assert answer("personality", 0x0008) == answer("personality", 0x0040000) == "EPERM"


def test_every_call_that_is_looked_into_is_decided_on_both_machines() -> None:
    for machine, (column, _) in MACHINES.items():
        for name in NAMED_ARGUMENTS:
            if SYSCALL_NUMBERS[name][column] is not None:
                assert answer(name, machine=machine), name


def test_the_program_fits_the_kernel_and_a_machine_we_do_not_know_gets_none() -> None:
    for machine in MACHINES:
        program = seccomp_filter(machine)
        assert len(seccomp_program(machine)) == 8 * len(program) < 8 * 4096
        assert all(0 <= jump <= 255 for _, *jumps, _ in program for jump in jumps)
    with pytest.raises(KeyError):
        seccomp_program("riscv64")
