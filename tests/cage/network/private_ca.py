"""A certificate authority of a test's own, and a server certificate that it signed."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def certificate_for(host: str, folder: Path) -> tuple[str, ssl.SSLContext]:
    """The authority's certificate as text, and a server's side of TLS that shows `host`."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    authority = _signed("Test authority", "Test authority", authority_key.public_key(), authority_key, None)
    certificate = _signed(host, "Test authority", key.public_key(), authority_key, host)
    chain = folder / "server.pem"
    chain.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return authority.public_bytes(serialization.Encoding.PEM).decode(), context


def _signed(
    subject: str,
    issuer: str,
    key: ec.EllipticCurvePublicKey,
    signing: ec.EllipticCurvePrivateKey,
    host: str | None,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    building = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=host is None, path_length=None), critical=True)
    )
    if host is not None:
        building = building.add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    return building.sign(signing, hashes.SHA256())
