"""Opens the planned sockets inside a cage's network namespace, before its program starts.

Runs in the warden and needs nothing but the standard library. Entering a user namespace takes a process with one
thread and cannot be undone, so a forked child enters, creates the sockets, passes them back and ends. A socket belongs
for life to the namespace it was created in: the daemon holds it outside, and accepts what connects inside.
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
    """One socket inside the cage: a listener for one host, the one for all redirected TCP, or the DNS server's."""

    purpose: SocketPurpose
    address: str
    port: int
    host: str = ""  # the host that a connection there means; only for `host`


def planned_sockets(plan: NetworkPlan) -> tuple[PlannedSocket, ...]:
    """Every socket of a plan, in the order in which they are passed on."""
    sockets = [PlannedSocket("host", listener.address, listener.port, listener.host) for listener in plan.listeners]
    if plan.redirect_port is not None:
        # The kernel redirects to loopback of the same IP version, so each version has a listener.
        if any(":" not in prefix for prefix in plan.redirect):
            sockets.append(PlannedSocket("redirect", LOOPBACK, plan.redirect_port))
        if any(":" in prefix for prefix in plan.redirect):
            sockets.append(PlannedSocket("redirect", LOOPBACK6, plan.redirect_port))
    if plan.dns:
        sockets.append(PlannedSocket("dns", DNS_ADDRESS, DNS_PORT))
    return tuple(sockets)


def add_ipv6(plan: NetworkPlan) -> NetworkPlan:
    """Extend `net:*` to every IPv6 address, for a machine that has IPv6."""
    if not plan.unrestricted:
        return plan
    return replace(plan, routes=(*plan.routes, "::/0"), redirect=(*plan.redirect, f"!{LOOPBACK6}/128"))


def match_sockets(plan: NetworkPlan, count: int) -> tuple[PlannedSocket, ...] | None:
    """What each of this many sockets is for; None where the plan has another number, with or without IPv6."""
    return next((sockets for sockets in map(planned_sockets, (add_ipv6(plan), plan)) if len(sockets) == count), None)


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
# errno of nf_tables, its nat or its redirect where they are not built in or may not be loaded.
_NO_REDIRECT = (errno.ENOENT, errno.EOPNOTSUPP, errno.EPROTONOSUPPORT, errno.EAFNOSUPPORT)


class NetworkSetupFailed(Exception):
    """The cage's network could not be set up; the code and the hint are for the caller of the launch.

    Outside the error tree, which the warden does not import: the daemon turns it into a CageUnavailable.
    """

    def __init__(self, message: str, *, code: str = "cage.network_failed", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint


def open_cage_sockets(pid: int, plan: NetworkPlan) -> list[socket.socket]:
    """Open a plan's sockets in the network namespace of process `pid`, in the order of `planned_sockets`.

    The process must be held back until this returns. Takes about a millisecond, and never more than a few seconds.

    Raises:
        NetworkSetupFailed: The process is gone, has no network of its own, or the kernel refused.
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
        answer, sockets, complete = _run_child(pid, plan)
    except OSError as error:
        raise NetworkSetupFailed(**_failure(error)) from error
    failure = json.loads(answer) if answer else {"message": "the process that entered the cage's network died"}
    if not complete:
        failure = _NO_DESCRIPTORS
    if failure is not None:
        for opened in sockets:
            opened.close()
        raise NetworkSetupFailed(**failure)
    return sockets


def _run_child(pid: int, plan: NetworkPlan) -> tuple[bytes, list[socket.socket], bool]:
    """Fork a child that enters the namespace: its answer, its sockets, and whether all descriptors arrived."""
    parent_end, child_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with parent_end:
        with child_end:
            child = os.fork()
            if child == 0:
                _child_main(child_end, pid, plan)
        try:
            parent_end.settimeout(_CHILD_TIMEOUT_S)
            answer, descriptors, flags, _ = socket.recv_fds(parent_end, 4096, MAX_SOCKETS)
        finally:
            _kill_child(child)
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for received in sockets:
        received.set_inheritable(False)  # no other cage may inherit it; recv_fds does not set MSG_CMSG_CLOEXEC
    return answer, sockets, not flags & socket.MSG_CTRUNC


def _failure(error: OSError) -> dict[str, str]:
    if is_descriptor_exhaustion(error):
        return _NO_DESCRIPTORS
    return {"message": f"the cage's network could not be made ({error})"}


def _kill_child(child: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):  # the warden's own reaper may have been quicker
        os.waitpid(child, 0)


def _child_main(channel: socket.socket, pid: int, plan: NetworkPlan) -> None:
    """Run in the forked child. Never returns: the warden's own code must not go on in a second process."""
    try:
        signal.set_wakeup_fd(-1)
        failure = None
        sockets: list[socket.socket] = []
        try:
            _join_namespaces(pid)
            sockets = _create_sockets(plan, pid)
        except NetworkSetupFailed as error:
            failure = {"message": str(error), "code": error.code, "hint": error.hint}
        except OSError as error:
            failure = _failure(error)
        rights = array.array("i", [opened.fileno() for opened in sockets])
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)] if sockets else []
        channel.sendmsg([json.dumps(failure).encode()], ancillary)
    finally:
        os._exit(0)


def _join_namespaces(pid: int) -> None:
    """Join the process's network namespace, with every capability over it."""
    try:
        net = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise NetworkSetupFailed("the caged process ended before its network was ready") from None
    # Its owner is not the process's own user namespace: bubblewrap makes two, one inside the other, and the network
    # belongs to the outer.
    owner = fcntl.ioctl(net, _NS_GET_USERNS)
    if _is_same_namespace(net, "/proc/self/ns/net") or _is_same_namespace(owner, "/proc/self/ns/user"):
        # The process is not the caged one (its pid may be reused): listening here would be listening outside.
        raise NetworkSetupFailed("the process has no network of its own")
    enter_namespace(owner)
    enter_namespace(net)


def _is_same_namespace(descriptor: int, path: str) -> bool:
    held, named = os.fstat(descriptor), os.stat(path)  # noqa: PTH116 - the warden does without pathlib
    return (held.st_dev, held.st_ino) == (named.st_dev, named.st_ino)


def _create_sockets(plan: NetworkPlan, pid: int) -> list[socket.socket]:
    _wait_for_loopback(pid)
    if _has_ipv6():
        plan = add_ipv6(plan)
    for prefix in plan.routes:
        add_local_route(prefix)
    sockets = [_open_socket(planned) for planned in planned_sockets(plan)]
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
    return sockets


def _wait_for_loopback(pid: int) -> None:
    """Wait until the builder of the cage has brought loopback up; doing it first would make bubblewrap fail."""
    deadline = time.monotonic() + _LOOPBACK_TIMEOUT_S
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        while not _loopback_is_up(any_socket):
            if not os.access(f"/proc/{pid}", os.F_OK):
                raise NetworkSetupFailed("the caged process ended before its network was ready")
            if time.monotonic() > deadline:
                raise NetworkSetupFailed("the cage's loopback did not come up")
            time.sleep(0.0002)


def _loopback_is_up(any_socket: socket.socket) -> bool:
    request = struct.pack("16sH14x", b"lo", 0)
    flags = struct.unpack_from("16xH", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[0]
    return bool(flags & _IFF_UP)


def _has_ipv6() -> bool:
    """Whether loopback has an IPv6 address; the host may have no IPv6."""
    try:
        with open("/proc/self/net/if_inet6", "rb") as addresses:  # noqa: PTH123 - the warden does without pathlib
            return bool(addresses.read(1))
    except FileNotFoundError:
        return False


def _open_socket(planned: PlannedSocket) -> socket.socket:
    family = socket.AF_INET6 if ":" in planned.address else socket.AF_INET
    is_datagram = planned.purpose == "dns"
    opened = socket.socket(family, socket.SOCK_DGRAM if is_datagram else socket.SOCK_STREAM)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # A granted address is made local by a route, not assigned to an interface, and only a free bind accepts that.
    if family == socket.AF_INET6:
        opened.setsockopt(socket.IPPROTO_IPV6, _IPV6_FREEBIND, 1)
    else:
        opened.setsockopt(socket.IPPROTO_IP, _IP_FREEBIND, 1)
    opened.bind((planned.address, planned.port))
    if not is_datagram:
        opened.listen(BACKLOG)
    return opened
