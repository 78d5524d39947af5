"""SNS's side of an HTTPS delivery: a key, its certificate, and envelopes signed with it.

The rule is the Amazon SNS Developer Guide's, "Verifying the signatures of Amazon SNS messages".
"""

import base64
import datetime as dt
import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from dev.files import write_private

SUBJECT: Final = "Amazon SES Email Event Notification"
CONTENT_TYPE: Final = "text/plain; charset=UTF-8"
USER_AGENT: Final = "Amazon Simple Notification Service Agent"

_KEY_BITS: Final = 2048
# So long that no test's false clock falls outside.
_VALID_DAYS: Final = 3650
# In the order of the canonical string; what an envelope lacks is left out.
_SIGNED: Final = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
    "UnsubscribeConfirmation": ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"),
}
_HASHES: Final[dict[str, hashes.HashAlgorithm]] = {
    # SNS's older signatures are what it is.
    "1": hashes.SHA1(),  # noqa: S303 - nothing here relies on it
    "2": hashes.SHA256(),
}


class Signer:
    """Signs envelopes as SNS does, with a key and a self-signed certificate of its own."""

    def __init__(self, key: rsa.RSAPrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)
        name = hashlib.sha256(certificate.public_bytes(serialization.Encoding.DER)).hexdigest()[:32]
        #: Where a server has to serve the certificate, to be named as SNS's are.
        self.certificate_path = f"/SimpleNotificationService-{name}.pem"

    @classmethod
    def generate(cls) -> Self:
        """Return a signer with a new key."""
        return cls(*_new_key())

    @classmethod
    def kept_in(cls, file: Path) -> Self:
        """Return the signer whose key the file holds; where there is none yet, make one that only its owner can read.

        Raises:
            OSError: the file cannot be read or written.
            ValueError: it holds something else.
        """
        if not file.exists():
            key, certificate = _new_key()
            pem = key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            write_private(file, (pem + certificate.public_bytes(serialization.Encoding.PEM)).decode())
        kept = file.read_bytes()
        key_kept = serialization.load_pem_private_key(kept, password=None)
        if not isinstance(key_kept, rsa.RSAPrivateKey):
            raise ValueError("not an RSA key")  # noqa: TRY004 - to a caller it is one more way to be no key file
        return cls(key_kept, x509.load_pem_x509_certificate(kept))

    def sign(self, envelope: Mapping[str, str], *, version: str = "2") -> str:
        """Return the signature over the canonical string in base64: RSA PKCS #1 v1.5 with the version's hash."""
        signature = self._key.sign(canonical(envelope), padding.PKCS1v15(), _HASHES[version])
        return base64.b64encode(signature).decode()

    def envelope(self, unsigned: Mapping[str, str], *, certificate_url: str, version: str = "2") -> dict[str, str]:
        """Return the envelope with its signature, and where the certificate for it is."""
        return dict(unsigned) | {
            "SignatureVersion": version,
            "Signature": self.sign(unsigned, version=version),
            "SigningCertURL": certificate_url,
        }


def notification(
    message: str, *, topic_arn: str, message_id: str, published_at: float, subject: str | None = SUBJECT
) -> dict[str, str]:
    """Return an unsigned notification; `published_at` is in seconds since 1970."""
    fields = {
        "Type": "Notification",
        "MessageId": message_id,
        "TopicArn": topic_arn,
        "Message": message,
        "Timestamp": timestamp(published_at),
    }
    return fields if subject is None else fields | {"Subject": subject}


def headers(envelope: Mapping[str, str]) -> dict[str, str]:
    """Return the HTTP headers that SNS delivers an envelope with."""
    return {
        "x-amz-sns-message-type": envelope["Type"],
        "x-amz-sns-message-id": envelope["MessageId"],
        "x-amz-sns-topic-arn": envelope["TopicArn"],
        "Content-Type": CONTENT_TYPE,
        "User-Agent": USER_AGENT,
    }


def canonical(envelope: Mapping[str, str]) -> bytes:
    """Return what is signed of an envelope: each name and value on a line of its own."""
    fields = (name for name in _SIGNED[envelope["Type"]] if name in envelope)
    return "".join(f"{name}\n{envelope[name]}\n" for name in fields).encode()


def timestamp(seconds: float) -> str:
    """Return a time, given in seconds since 1970, as AWS writes it: RFC 3339 in UTC with milliseconds."""
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _new_key() -> tuple[rsa.RSAPrivateKey, x509.Certificate]:
    key = rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "SES simulator")])
    now = dt.datetime.fromtimestamp(time.time(), dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=_VALID_DAYS))
        .not_valid_after(now + dt.timedelta(days=_VALID_DAYS))
        .sign(key, hashes.SHA256())
    )
    return key, certificate
