"""Web servers on loopback, names that lead to them, and plugins that ask."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec.structs import replace
from tests.capabilities.stage import plugin

from paddock.capabilities.request import CapabilityRequest
from paddock.core.call import CallContext, Principal
from paddock.core.ids import PrincipalId, RequestId
from paddock.net.dial import SystemNetwork

HOST = "api.example.com"


@dataclass(frozen=True, slots=True)
class Seen:
    """A request as a server got it; the names of headers in lower case. `gone` waits until whoever sent it has left."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    gone: Callable[[], Awaitable[bytes]]


Serve: TypeAlias = Callable[[Seen, asyncio.StreamWriter], Awaitable[None]]


def reply(status: int = 200, body: bytes = b"", **headers: str) -> Serve:
    """Answers with this."""
    lines = {"content-length": str(len(body)), **{name.replace("_", "-"): value for name, value in headers.items()}}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())

    async def serve(seen: Seen, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + (b"" if seen.method == "HEAD" else body))

    return serve


@dataclass(slots=True)
class Server:
    """A web server that answers by path, and for each path in turn; the last answer stays."""

    port: int = 0
    pages: dict[str, list[Serve]] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    heard: asyncio.Event = field(default_factory=asyncio.Event)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            method, path, _ = first.split(" ")
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            one = Seen(method, path, headers, body, reader.read)
            self.seen.append(one)
            self.heard.set()
            answers = self.pages.get(path.partition("?")[0]) or [reply(404)]
            await (answers.pop(0) if len(answers) > 1 else answers[0])(one, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # they had enough
        finally:
            writer.close()


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None, **pages: Serve | list[Serve]) -> AsyncGenerator[Server, None]:
    """A server on loopback; `page=…` is what it answers at /page."""
    server = Server(pages={f"/{name}": [one] if callable(one) else one for name, one in pages.items()})
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    server.port = listening.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listening.close()


class Names(SystemNetwork):
    """A name server of ours, and the system's connections.

    Each name has answers that are given in turn; the last one stays.
    """

    def __init__(self, **names: list[Sequence[str]]) -> None:
        super().__init__()
        self._names = {name.replace("_", "."): answers for name, answers in names.items()}
        self.asked: list[str] = []
        self.dialled: list[str] = []

    async def resolve(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answers = self._names.get(host)
        if not answers:
            raise socket.gaierror("no such name")
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append(address)
        return await super().connect(address, port)


def asker(*ports: int, hosts: Sequence[str] = (HOST,), **more: Any) -> CapabilityRequest:
    """A plugin that may ask these hosts, and whom a person granted this machine's own address on the same ports."""
    granted = [f"net:{host}:{port}" for port in ports for host in (*hosts, "127.0.0.1")]
    asking = plugin("digest", ("host:http", *granted), **more)
    in_a_call = CallContext(Principal(PrincipalId("ann")), RequestId("r")) if "effects" in more else None
    return replace(asking, call=in_a_call)


def here() -> Names:
    """A name server for which the usual host is on this machine."""
    return Names(api_example_com=[["127.0.0.1"]])


def url(server: Server, path: str = "/page", host: str = HOST, scheme: str = "http") -> str:
    return f"{scheme}://{host}:{server.port}{path}"


def authority(directory: Path, *hosts: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """What a server needs whose certificate is for these hosts, and what a client needs that trusts who signed it.

    A file `authority.pem` is for other programs that are to trust them.
    """
    root_key, root = _certificate("Test Authority", (), None, None)
    key, leaf = _certificate("server", hosts, root_key, root)
    chain, private = directory / "chain.pem", directory / "key.pem"
    chain.write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(chain, private)
    trusting = directory / "authority.pem"
    trusting.write_bytes(root.public_bytes(serialization.Encoding.PEM))
    return server, ssl.create_default_context(cafile=trusting)


def _named(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate(
    name: str, hosts: Sequence[str], issuer_key: ec.EllipticCurvePrivateKey | None, issuer: x509.Certificate | None
) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signer = issuer_key or key
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if hosts:
        made = made.add_extension(x509.SubjectAlternativeName([_named(host) for host in hosts]), critical=False)
    return key, made.sign(signer, hashes.SHA256())
