"""Keys, certificates and signed bodies as SNS has them, written down apart from the verifier."""

import base64
import json
import ssl
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from time import time
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

TOPIC = "arn:aws:sns:us-east-1:123456789012:ses-events"
CHINESE_TOPIC = "arn:aws-cn:sns:cn-north-1:123456789012:ses-events"
HOST = "sns.us-east-1.amazonaws.com"
PATH = "/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
URL = f"https://{HOST}{PATH}"

Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def now() -> datetime:
    return datetime.fromtimestamp(time(), UTC)


@cache
def rsa_key(bits: int = 2048, name: str = "sns") -> rsa.RSAPrivateKey:  # noqa: ARG001 (another name is another key)
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def certificate(
    key: Key,
    *,
    host: str = HOST,
    starts: timedelta = timedelta(days=-1),
    ends: timedelta = timedelta(days=30),
    issuer: rsa.RSAPrivateKey | None = None,
    is_authority: bool = False,
) -> bytes:
    """Return a PEM certificate for a key, signed by itself or by an authority."""
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority" if is_authority else host)])
    signed_by = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "authority")]) if issuer else name
    authority = issuer or key
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(signed_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now() + starts)
        .not_valid_after(now() + ends)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key()), critical=False)
    )
    return builder.sign(authority, SHA256()).public_bytes(Encoding.PEM)


def tls_sides(folder: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Return a server's TLS for SNS's host, and a client's that trusts its authority and no other."""
    authority, server = rsa_key(name="authority"), rsa_key(name="server")
    chain = folder / "server.pem"
    private = server.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain.write_bytes(private + certificate(server, issuer=authority))
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(chain)
    trusting = ssl.create_default_context(cadata=certificate(authority, is_authority=True).decode())
    return serving, trusting


def notification(
    *,
    message: str = '{"eventType":"Send"}',
    subject: str | None = None,
    topic: str = TOPIC,
    version: str = "2",
    age: timedelta = timedelta(),
    key: rsa.RSAPrivateKey | None = None,
    url: str = URL,
) -> dict[str, Any]:
    """Return a signed notification; SNS adds members that nobody signs, so there is one."""
    at = (now() - age).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    named = "" if subject is None else f"Subject\n{subject}\n"
    text = (
        f"Message\n{message}\nMessageId\n22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324\n{named}"
        f"Timestamp\n{at}\nTopicArn\n{topic}\nType\nNotification\n"
    )
    body = {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": topic,
        "Message": message,
        "Timestamp": at,
        "SignatureVersion": version,
        "Signature": _signature(text, version, key),
        "SigningCertURL": url,
        "UnsubscribeURL": f"https://{HOST}/?Action=Unsubscribe&SubscriptionArn={topic}:1",
    }
    return body if subject is None else {**body, "Subject": subject}


def confirmation(kind: str = "SubscriptionConfirmation") -> dict[str, Any]:
    """Return a signed request to confirm that a topic was subscribed to, or left."""
    at = now().strftime("%Y-%m-%dT%H:%M:%S.000Z")
    text = (
        "Message\nYou have chosen to subscribe.\nMessageId\n165545c9-2a5c-472c-8df2-7ff2be2b3b1b\n"
        f"SubscribeURL\nhttps://{HOST}/?Action=ConfirmSubscription&Token=23df\n"
        f"Timestamp\n{at}\nToken\n23df\nTopicArn\n{TOPIC}\nType\n{kind}\n"
    )
    return {
        "Type": kind,
        "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
        "Token": "23df",
        "TopicArn": TOPIC,
        "Message": "You have chosen to subscribe.",
        "SubscribeURL": f"https://{HOST}/?Action=ConfirmSubscription&Token=23df",
        "Timestamp": at,
        "SignatureVersion": "2",
        "Signature": _signature(text, "2", None),
        "SigningCertURL": URL,
    }


def encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body).encode()


def _signature(text: str, version: str, key: rsa.RSAPrivateKey | None) -> str:
    digest = SHA1() if version == "1" else SHA256()  # noqa: S303 (what SNS's version 1 is)
    return base64.b64encode((key or rsa_key()).sign(text.encode(), padding.PKCS1v15(), digest)).decode()
