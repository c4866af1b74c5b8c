"""Which certificates of servers elsewhere are trusted."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from tests.mcp.odd_http import odd_server
from tests.mcp.playing import connected
from tests.runtime.stage import open_stage

from paddock.runtime.lifecycle import PluginState


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for 127.0.0.1 that vouches for itself, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "here")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = tmp_path / "certificate.pem"
    file.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return file


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "unknown"])
async def test_a_server_is_talked_to_only_if_its_certificate_is_trusted(
    tmp_path: Path, certificate: Path, trusted: bool
) -> None:
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.load_cert_chain(certificate)
    ours = ssl.create_default_context(cafile=str(certificate)) if trusted else None

    async with odd_server(tls=theirs) as odd, open_stage(tmp_path, tls=ours) as stage:
        server = connected(stage, odd.url.replace("http:", "https:"))
        if trusted:
            assert await server.said("echo", {"text": "safe"}) == "safe"
        else:
            status = await server.actor.until(PluginState.CRASHED)
            assert "certificate" in status.reason and "not trusted" in status.reason
            assert odd.requests == []
