"""Certificates that tests make for servers on this machine."""

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


def write_certificate(
    folder: Path, name: str = "server", *, host: str = "127.0.0.1", password: bytes = b""
) -> tuple[Path, Path]:
    """Write a self-signed certificate of an IP address, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lakebed")])
    now = datetime.now(UTC)
    alternative = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(host))])
    certificate = (
        x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(alternative, critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / f"{name}.crt", folder / f"{name}.key"
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    files[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, encryption)
    )
    return files
