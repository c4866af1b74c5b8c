"""Stepping into a cage's network before its program starts, to leave the sockets there that the plan asks for.

Runs in the warden and needs nothing but the standard library. Entering a user namespace takes a process with one
thread and cannot be undone, so a forked child goes in, makes the sockets, hands them back and ends. A socket belongs
for life to the network it was made in: the daemon holds it outside, and hears what connects inside.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import time
from dataclasses import dataclass, replace
from typing import Literal

from paddock.cage.linux import NO_DESCRIPTORS_CODE, RAISE_NOFILE_HINT, enter_namespace, is_descriptor_exhaustion
from paddock.cage.network.netlink import add_local_route, redirect_tcp
from paddock.cage.plan.network_plan import DNS_ADDRESS, DNS_PORT, LOOPBACK, NetworkPlan

LOOPBACK6 = "::1"

SocketPurpose = Literal["host", "redirect", "dns"]


@dataclass(frozen=True, slots=True)
class PlannedSocket:
    """One socket inside the cage: a listener for one host, the one for all that is redirected, or the name server's."""

    purpose: SocketPurpose
    address: str
    port: int
    host: str = ""  # whom a connection there means; only for `host`


def planned_sockets(plan: NetworkPlan) -> tuple[PlannedSocket, ...]:
    """Every socket that a plan needs, in the order in which they are handed over."""
    found = [PlannedSocket("host", one.address, one.port, one.host) for one in plan.listeners]
    if plan.redirect_port is not None:
        # The kernel redirects to loopback of the same kind, so each kind that is redirected is heard on its own.
        if any(":" not in prefix for prefix in plan.redirect):
            found.append(PlannedSocket("redirect", LOOPBACK, plan.redirect_port))
        if any(":" in prefix for prefix in plan.redirect):
            found.append(PlannedSocket("redirect", LOOPBACK6, plan.redirect_port))
    if plan.dns:
        found.append(PlannedSocket("dns", DNS_ADDRESS, DNS_PORT))
    return tuple(found)


def add_ipv6(plan: NetworkPlan) -> NetworkPlan:
    """A plan in which `net:*` means every IPv6 address too; for a machine that has IPv6."""
    if not plan.unrestricted:
        return plan
    return replace(plan, routes=(*plan.routes, "::/0"), redirect=(*plan.redirect, f"!{LOOPBACK6}/128"))


def match_sockets(plan: NetworkPlan, count: int) -> tuple[PlannedSocket, ...] | None:
    """What each of so many sockets is for; None where the plan has no such number, with or without IPv6."""
    return next((found for found in map(planned_sockets, (add_ipv6(plan), plan)) if len(found) == count), None)


MAX_SOCKETS = 240  # the kernel passes 253 descriptors with one message
BACKLOG = 64
_LOOPBACK_TIMEOUT_S = 5.0
_CHILD_TIMEOUT_S = 8.0
_NO_DESCRIPTORS = {"message": "no descriptor is free", "code": NO_DESCRIPTORS_CODE, "hint": RAISE_NOFILE_HINT}

_NS_GET_USERNS = 0xB701
_SIOCGIFFLAGS = 0x8913
_IFF_UP = 0x1
_IPV6_FREEBIND = 78
_IP_FREEBIND = 15
# What nf_tables, its nat or its redirect answer where they were not built or may not be loaded.
_NO_REDIRECT = (errno.ENOENT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT)


class NetworkSetupFailed(Exception):
    """The cage's network could not be made; the code and the hint are for whoever wants to start the plugin.

    Outside the error tree, which the warden does without: the daemon makes a CageUnavailable of it.
    """

    def __init__(self, message: str, *, code: str = "cage.network_failed", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def open_cage_sockets(pid: int, plan: NetworkPlan) -> list[socket.socket]:
    """Make a plan's sockets in the network of process `pid`, in the order of `listeners.wanted`.

    The process must be held back until this returns. Takes about a millisecond, and never more than a few seconds.

    Raises:
        CannotEnter: the process is gone, has no network of its own, or the kernel refused.
    """
    if plan.is_empty:
        return []
    if len(planned_sockets(plan)) > MAX_SOCKETS:
        raise NetworkSetupFailed(
            f"the plugin is granted more than {MAX_SOCKETS} pairs of host and port",
            code="cage.too_many_hosts",
            hint="grant whole hosts, as in 'net:api.example.com:*'",
        )
    try:
        answer, made, whole = _run_child(pid, plan)
    except OSError as error:
        raise NetworkSetupFailed(**_failure(error)) from error
    failure = json.loads(answer) if answer else {"message": "the process that entered the cage's network died"}
    if not whole:
        failure = _NO_DESCRIPTORS
    if failure is not None:
        for one in made:
            one.close()
        raise NetworkSetupFailed(**failure)
    return made


def _run_child(pid: int, plan: NetworkPlan) -> tuple[bytes, list[socket.socket], bool]:
    """What a child that went into the cage's network answered, what it brought back, and whether that is all."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            child = os.fork()
            if child == 0:
                _child_main(theirs, pid, plan)
        try:
            ours.settimeout(_CHILD_TIMEOUT_S)
            answer, descriptors, flags, _ = socket.recv_fds(ours, 4096, MAX_SOCKETS)
        finally:
            _kill_child(child)
    made = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for one in made:
        one.set_inheritable(False)  # no other cage may come by it; recv_fds forgets to ask the kernel for that
    return answer, made, not flags & socket.MSG_CTRUNC


def _failure(error: OSError) -> dict[str, str]:
    if is_descriptor_exhaustion(error):
        return _NO_DESCRIPTORS
    return {"message": f"the cage's network could not be made ({error})"}


def _kill_child(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # whoever reaps every child may have been quicker
        os.waitpid(child, 0)


def _child_main(channel: socket.socket, pid: int, plan: NetworkPlan) -> None:
    """What the forked child does. Never returns: the warden's own code must not go on in a second process."""
    try:
        signal.set_wakeup_fd(-1)
        failure = None
        made: list[socket.socket] = []
        try:
            _join_namespaces(pid)
            made = _create_sockets(plan, pid)
        except NetworkSetupFailed as error:
            failure = {"message": str(error), "code": error.code, "hint": error.hint}
        except OSError as error:
            failure = _failure(error)
        rights = array.array("i", [one.fileno() for one in made])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if made else []
        channel.sendmsg([json.dumps(failure).encode()], ancillary)
    finally:
        os._exit(0)


def _join_namespaces(pid: int) -> None:
    """Become a member of the process's network, with every capability over it."""
    try:
        net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NetworkSetupFailed("the caged process ended before its network was ready") from None
    # Its owner is not the process's own user namespace: bubblewrap makes two, one inside the other, and the network
    # belongs to the outer.
    owner = fcntl.ioctl(net, _NS_GET_USERNS)
    if _is_same_namespace(net, "/proc/self/ns/net") or _is_same_namespace(owner, "/proc/self/ns/user"):
        # The process is not the caged one (its number may be taken again): listening here would be listening outside.
        raise NetworkSetupFailed("the process has no network of its own")
    enter_namespace(owner)
    enter_namespace(net)


def _is_same_namespace(descriptor: int, path: str) -> bool:
    one, other = os.fstat(descriptor), os.stat(path)  # noqa: PTH116 - the warden does without pathlib
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def _create_sockets(plan: NetworkPlan, pid: int) -> list[socket.socket]:
    _wait_for_loopback(pid)
    if _has_ipv6():
        plan = add_ipv6(plan)
    for prefix in plan.routes:
        add_local_route(prefix)
    made = [_open_socket(one) for one in planned_sockets(plan)]
    if plan.redirect_port is not None:
        try:
            redirect_tcp(plan.redirect, plan.redirect_port)
        except OSError as error:
            if error.errno not in _NO_REDIRECT:
                raise
            raise NetworkSetupFailed(
                f"this kernel cannot redirect connections ({error.strerror})",
                code="cage.redirect_unsupported",
                hint="load nf_tables and nft_redir, or grant single ports: 'net:api.example.com:443'",
            ) from error
    return made


def _wait_for_loopback(pid: int) -> None:
    """Wait until whoever builds the cage has raised its loopback; raising it first would make bubblewrap fail."""
    end = time.monotonic() + _LOOPBACK_TIMEOUT_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while not _loopback_is_up(any_socket):
            if not os.access(f"/proc/{pid}", os.F_OK):
                raise NetworkSetupFailed("the caged process ended before its network was ready")
            if time.monotonic() > end:
                raise NetworkSetupFailed("the cage's loopback did not come up")
            time.sleep(0.0002)


def _loopback_is_up(any_socket: socket.socket) -> bool:
    request = struct.pack("16sH14x", b"lo", 0)
    flags = struct.unpack_from("16xH", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[0]
    return bool(flags & _IFF_UP)


def _has_ipv6() -> bool:
    """Whether loopback has an IPv6 address; the machine may be without any."""
    try:
        with open("/proc/self/net/if_inet6", "rb") as addresses:  # noqa: PTH123 - the warden does without pathlib
            return bool(addresses.read(1))
    except FileNotFoundError:
        return False


def _open_socket(one: PlannedSocket) -> socket.socket:
    family = socket.AF_INET6 if ":" in one.address else socket.AF_INET
    datagrams = one.purpose == "dns"
    made = socket.socket(family, socket.SOCK_DGRAM if datagrams else socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # A granted address is made local by a route, not put on an interface, and only a free bind accepts that.
    if family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
    else:
        made.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    made.bind((one.address, one.port))
    if not datagrams:
        made.listen(BACKLOG)
    return made
