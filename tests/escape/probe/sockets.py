"""Attempts to reach somebody through a socket. The plugin was granted no network at all."""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import struct
from contextlib import suppress

from .trying import Facts, Room, refuse

room = Room()

LISTENED = ("AF_INET", "AF_INET6", "AF_NETLINK")
NET_LINK_ROUTE = 0


def _connect(address: tuple[str, int], family: int = socket.AF_INET) -> str:
    with socket.socket(family, socket.SOCK_STREAM) as one:
        one.settimeout(3)
        one.connect(address)
        return f"connected to {address}"


@room.attempt("connect to a server on the host's loopback")
def _(facts: Facts) -> str | None:
    return _connect(("127.0.0.1", facts["tcp_port"]))


@room.attempt("connect to it by another name of the same machine")
def _(facts: Facts) -> str | None:
    for name in ("localhost", "0.0.0.0", "127.0.0.2", "127.1"):
        with suppress(OSError):
            return _connect((name, facts["tcp_port"]))
    with suppress(OSError):
        return _connect(("::1", facts["tcp_port"]), socket.AF_INET6)
    with suppress(OSError):
        return _connect(("::ffff:127.0.0.1", facts["tcp_port"]), socket.AF_INET6)
    return None


@room.attempt("connect while sending")
def _(facts: Facts) -> str | None:
    with socket.socket() as one:
        one.sendto(b"hello", 0x20000000, ("127.0.0.1", facts["tcp_port"]))
        return "sent it"


@room.attempt("send a datagram to the host's loopback")
def _(facts: Facts) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.settimeout(1)
        one.sendto(b"hello", ("127.0.0.1", facts["udp_port"]))
        # Sent is not received: somebody has to answer.
        with suppress(TimeoutError):
            return one.recv(99).decode()
    return None


@room.attempt("ask the cloud for the machine's credentials")
def _(facts: Facts) -> str | None:
    with suppress(TimeoutError):
        return _connect(("169.254.169.254", 80))
    return "a packet left"


@room.attempt("connect to the internet")
def _(facts: Facts) -> str | None:
    with suppress(TimeoutError):
        return _connect(("192.0.2.1", 443))
    return "a packet left"


@room.attempt("connect to the internet of version six")
def _(facts: Facts) -> str | None:
    with suppress(TimeoutError):
        return _connect(("2001:db8::1", 443), socket.AF_INET6)
    return "a packet left"


@room.attempt("smuggle data out in a name that it looks up")
def _(facts: Facts) -> str | None:
    try:
        return str(socket.getaddrinfo("secret.example.com", 80))
    except socket.gaierror:
        return None


@room.attempt("send a question to a name server of its choice")
def _(facts: Facts) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.sendto(b"\0" * 12, ("192.0.2.53", 53))
    return "a packet left"


@room.attempt("shout to everybody on the network")
def _(facts: Facts) -> str | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        for address in ("255.255.255.255", "224.0.0.251"):
            with suppress(OSError):
                one.sendto(b"hello", (address, 5353))
                return f"a packet left to {address}"
    return None


@room.attempt("find an interface besides its own loopback")
def _(facts: Facts) -> str | None:
    names = [name for _, name in socket.if_nameindex() if name != "lo"]
    return str(names) if names else None


@room.attempt("give itself an address and a way out")
def _(facts: Facts) -> str | None:
    body = struct.pack("=BBBBI", socket.AF_INET, 32, 0, 0, 1) + struct.pack("=HH4s", 8, 2, bytes([10, 9, 8, 7]))
    request = struct.pack("=IHHII", 16 + len(body), 20, 0x0001 | 0x0004 | 0x0400, 1, 0) + body
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NET_LINK_ROUTE) as one:
        one.settimeout(3)
        one.send(request)
        problem = struct.unpack_from("=i", one.recv(4096), 16)[0]
    if problem:
        refuse(-problem)
    return "it has one"


@room.attempt("listen to every packet")
def _(facts: Facts) -> str | None:
    for family, kind, protocol in ((17, 3, 0x0300), (2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 2, 0x0300)):
        with suppress(OSError):
            socket.socket(family, kind, protocol).close()
            return f"family {family} opened"
    return None


@room.attempt("send a ping")
def _(facts: Facts) -> str | None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).close()
    return "it could"


@room.attempt("use a protocol besides TCP and UDP")
def _(facts: Facts) -> str | None:
    for kind, protocol in ((1, 132), (5, 132), (1, 262), (2, 136), (6, 33), (1, 263)):
        with suppress(OSError):
            socket.socket(socket.AF_INET, kind, protocol).close()
            return f"protocol {protocol} opened"
    return None


@room.attempt("open a socket of any other family")
def _(facts: Facts) -> str | None:
    plain = {getattr(socket, name) for name in LISTENED}
    opened: list[int] = []
    for family in set(range(48)) - plain:
        for kind in (1, 2, 3, 5):
            with suppress(OSError):
                socket.socket(family, kind, 0).close()
                opened.append(family)
    return f"families {opened}" if opened else None


@room.attempt("talk to the host through its virtual machine's socket")
def _(facts: Facts) -> str | None:
    socket.socket(40, socket.SOCK_STREAM).close()
    return "opened it"


@room.attempt("use the ciphers of the kernel")
def _(facts: Facts) -> str | None:
    socket.socket(38, socket.SOCK_SEQPACKET).close()
    return "opened it"


@room.attempt("talk to a part of the kernel besides its routes")
def _(facts: Facts) -> str | None:
    opened: list[int] = []
    for protocol in range(1, 23):
        with suppress(OSError):
            socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol).close()
            opened.append(protocol)
    return f"protocols {opened}" if opened else None


@room.attempt("connect to an abstract socket of the host")
def _(facts: Facts) -> str | None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as one:
        one.connect("\0" + facts["abstract"])
        return "connected"


@room.attempt("send to an abstract socket of the host from one of a pair")
def _(facts: Facts) -> str | None:
    one, _other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"hello", "\0" + facts["abstract"] + "-datagrams")
    return "sent it"


@room.attempt("make datagram sockets that could be pointed elsewhere")
def _(facts: Facts) -> str | None:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC):
        with suppress(OSError):
            for end in socket.socketpair(socket.AF_UNIX, kind):
                end.close()
            return f"kind {kind:#x}"
    return None


@room.attempt("point one of a pair of stream sockets elsewhere")
def _(facts: Facts) -> str | None:
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        one, _other = socket.socketpair(socket.AF_UNIX, kind)
        with suppress(OSError):
            # Dissolving the association first is what datagrams would allow.
            ctypes.CDLL(None).connect(one.fileno(), bytes(16), 16)
            one.connect("\0" + facts["abstract"])
            return f"kind {kind}"
    return None


@room.attempt("hand a descriptor out through its streams")
def _(facts: Facts) -> str | None:
    kinds = [os.fstat(number).st_mode for number in (0, 1, 2)]
    return None if all(stat.S_ISFIFO(kind) for kind in kinds) else f"no pipes but {kinds}"
