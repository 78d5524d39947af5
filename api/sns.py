"""The envelope of Amazon SNS: reading one, and whether SNS itself signed it, for one of our topics."""

import base64
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256, HashAlgorithm
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.certificates import CertificateRefusedError, Certificates
from api.faults import InvalidRequest
from api.fields import Fields, read_object
from api.strict_json import JsonObject

#: SNS carries 256 KiB; in the envelope each quote of a JSON message has a backslash of its own.
MAX_BYTES: Final = 512 * 1024

#: How far SNS's clock may be before ours.
_AHEAD: Final = timedelta(minutes=15)
_LEAST_KEY_BITS: Final = 2048

_TOPIC_ARN: Final = re.compile(
    r"arn:(?P<partition>aws|aws-cn|aws-us-gov):sns:(?P<region>[a-z]{2,8}(?:-[a-z]{1,16}){1,3}-[0-9]{1,2})"
    r":[0-9]{12}:[A-Za-z0-9_-]{1,256}(?:\.fifo)?"
)
_DOMAINS: Final = {"aws": "amazonaws.com", "aws-us-gov": "amazonaws.com", "aws-cn": "amazonaws.com.cn"}
_ORIGIN: Final = re.compile(r"https?://[a-z0-9.-]{1,253}(?::[0-9]{1,5})?")
_CERTIFICATE_PATH: Final = r"/SimpleNotificationService-[0-9a-f]{32}\.pem"

_WORD: Final = re.compile(r"[!-~]{1,256}")
_LINE: Final = re.compile(r"[^\x00-\x1f\x7f]{0,4096}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that we listen to."""

    arn: str
    signer: str  #: the only origin that its certificates may come from


class EventSettings(BaseSettings):
    """How provider events are taken."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_EVENTS_", hide_input_in_errors=True, env_ignore_empty=True)

    topics: str = Field(
        default="",
        description="The SNS topics (ARNs, with commas between) whose notifications are taken. None: no one's.",
    )
    signature_version_1: bool = Field(
        default=False, description="Take SNS's older signatures, by SHA-1, too. Better: set the topic to version 2."
    )
    # SNS goes on trying an HTTPS door for an hour (delivery policies: 3,600 s in all); the rest is for clocks.
    max_age_seconds: float = Field(
        default=7200, gt=0, description="An SNS notification over HTTPS that is older than this is refused."
    )
    certificate_origin: str | None = Field(
        default=None,
        description="For tests: where signing certificates come from instead of AWS. Refused in a live environment.",
    )

    @field_validator("topics")
    @classmethod
    def _are_arns(cls, topics: str) -> str:
        for place, arn in enumerate(_listed(topics), start=1):
            if _TOPIC_ARN.fullmatch(arn) is None:
                raise ValueError(
                    f"number {place} is no ARN of an SNS topic, such as arn:aws:sns:us-east-1:123456789012:ses"
                )
        return topics

    @field_validator("certificate_origin")
    @classmethod
    def _is_for_tests_only(cls, origin: str | None) -> str | None:
        # Read here rather than as a field, which would have this class's prefix.
        if origin is not None and os.environ.get("FENCEPOST_ENVIRONMENT") != "test":
            raise ValueError("refused unless FENCEPOST_ENVIRONMENT is test; unset it")
        if origin is not None and _ORIGIN.fullmatch(origin) is None:
            raise ValueError("it has to be an origin, such as http://127.0.0.1:7481")
        return origin

    @property
    def allowed_topics(self) -> tuple[Topic, ...]:
        """The topics that we listen to, each with where its certificates come from."""
        return tuple(
            Topic(
                arn=arn,
                signer=self.certificate_origin or f"https://sns.{parts['region']}.{_DOMAINS[parts['partition']]}",
            )
            for arn in _listed(self.topics)
            if (parts := _TOPIC_ARN.fullmatch(arn))
        )


def _listed(topics: str) -> list[str]:
    return [topic for part in topics.split(",") if (topic := part.strip())]


class EnvelopeType(StrEnum):
    """What SNS wants of us."""

    NOTIFICATION = "Notification"
    SUBSCRIPTION_CONFIRMATION = "SubscriptionConfirmation"
    UNSUBSCRIBE_CONFIRMATION = "UnsubscribeConfirmation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What SNS posts, as it was read: nothing in it is known to be true before it is verified."""

    type: EnvelopeType
    message_id: str
    topic_arn: str
    subject: str | None = field(repr=False)  #: of a notification, where it has one
    message: str = field(repr=False)
    timestamp: str  #: as it was written, since that is what is signed
    published_at: datetime  #: the same moment
    signature_version: str
    signature: str = field(repr=False)
    certificate_url: str
    token: str | None = field(repr=False)  #: what confirms a subscription; None in a notification
    subscribe_url: str | None = field(repr=False)  #: a part of what is signed, and never called


class NotAnEnvelopeError(Exception):
    """This is nothing that SNS posts."""


class Refusal(StrEnum):
    """Why an envelope is not believed: a closed list, safe to log."""

    TOPIC = "topic"  #: not on the list
    SIGNATURE_VERSION = "signature_version"
    AGE = "age"  #: too old, or from the future
    CERTIFICATE_ADDRESS = "certificate_address"  #: not where SNS in the topic's region keeps its certificates
    CERTIFICATE = "certificate"  #: nothing there, or nothing that may sign now
    SIGNATURE = "signature"


class UnverifiedError(Exception):
    """The envelope is not believed."""

    def __init__(self, reason: Refusal) -> None:
        super().__init__(reason.value)
        self.reason = reason


def parse(body: bytes) -> Envelope:
    """Read what was posted; members that SNS may add are ignored, and a member that is null is missing.

    All but the message is one line of text. That leaves one way to take apart what is signed, where names and values
    only stand on lines of their own: a message can't pretend to be a message and a subject.

    Raises `NotAnEnvelopeError`; it holds nothing of the body.
    """
    if len(body) > MAX_BYTES:
        raise NotAnEnvelopeError("too long")
    try:
        members = read_object(body)
    except InvalidRequest:
        raise NotAnEnvelopeError("no JSON object") from None
    try:
        kind = EnvelopeType(_required(members, "Type", _WORD))
    except ValueError:
        raise NotAnEnvelopeError("Type") from None
    confirms = kind is not EnvelopeType.NOTIFICATION
    timestamp = _required(members, "Timestamp", _LINE)
    return Envelope(
        type=kind,
        message_id=_required(members, "MessageId", _WORD),
        topic_arn=_required(members, "TopicArn", _LINE),
        subject=None if confirms else _text(members, "Subject", _LINE),
        message=_required(members, "Message", None),
        timestamp=timestamp,
        published_at=_moment(timestamp),
        signature_version=_required(members, "SignatureVersion", _LINE),
        signature=_required(members, "Signature", _LINE),
        certificate_url=_required(members, "SigningCertURL", None),
        token=_required(members, "Token", _LINE) if confirms else None,
        subscribe_url=_required(members, "SubscribeURL", _LINE) if confirms else None,
    )


def _required(members: JsonObject, name: str, form: re.Pattern[str] | None) -> str:
    text = _text(members, name, form)
    if text is None:
        raise NotAnEnvelopeError(name)
    return text


def _text(members: JsonObject, name: str, form: re.Pattern[str] | None) -> str | None:
    text = members.get(name)
    if text is None:
        return None
    if not isinstance(text, str) or (form is not None and form.fullmatch(text) is None):
        raise NotAnEnvelopeError(name)
    return text


def _moment(timestamp: str) -> datetime:
    fields = Fields()
    moment = fields.time(timestamp, "")
    if fields.faults:
        raise NotAnEnvelopeError("Timestamp")
    return moment


class Verifier:
    """Tells whether SNS signed an envelope for one of our topics.

    A signature alone only says that it came through somebody's topic, and everybody may have one: hence the list.

    Args:
        settings: Our topics, and what is taken from them.
        certificates: Where certificates are fetched and kept.
        checks_age: False for a queue: SQS may hold a message for 14 days, and one that is taken again does nothing.
        clock: Gives seconds since 1970, as `time.time` does.

    """

    def __init__(
        self,
        settings: EventSettings,
        certificates: Certificates,
        *,
        checks_age: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._topics = {topic.arn: topic for topic in settings.allowed_topics}
        self._version_1 = settings.signature_version_1
        self._max_age = timedelta(seconds=settings.max_age_seconds) if checks_age else None
        self._certificates = certificates
        self._clock = clock

    async def verify(self, envelope: Envelope) -> None:
        """Return where SNS signed this envelope; everything that needs no fetch is judged before it.

        Raises `UnverifiedError` with the reason, and `api.certificates.CertificateUnavailableError` where the answer
        isn't known, since the certificate couldn't be fetched.
        """
        topic = self._topics.get(envelope.topic_arn)
        if topic is None:
            raise UnverifiedError(Refusal.TOPIC)
        digest = self._digest(envelope.signature_version)
        now = datetime.fromtimestamp(self._clock(), UTC)
        if self._max_age is not None and not now - self._max_age <= envelope.published_at <= now + _AHEAD:
            raise UnverifiedError(Refusal.AGE)
        # The text itself is compared, and no parser's idea of it: two parsers can find different hosts in one text.
        if re.fullmatch(re.escape(topic.signer) + _CERTIFICATE_PATH, envelope.certificate_url) is None:
            raise UnverifiedError(Refusal.CERTIFICATE_ADDRESS)
        try:
            certificate = await self._certificates.get(envelope.certificate_url)
        except CertificateRefusedError:
            raise UnverifiedError(Refusal.CERTIFICATE) from None
        # A kept certificate may have run out since it was fetched.
        key = _key(certificate, now)
        try:
            signature = base64.b64decode(envelope.signature, validate=True)
            key.verify(signature, _signed(envelope), PKCS1v15(), digest)
        except (ValueError, InvalidSignature):
            raise UnverifiedError(Refusal.SIGNATURE) from None

    def _digest(self, signature_version: str) -> HashAlgorithm:
        if signature_version == "2":
            return SHA256()
        if signature_version == "1" and self._version_1:
            return SHA1()  # noqa: S303  (what version 1 is; only for who asks for it)
        raise UnverifiedError(Refusal.SIGNATURE_VERSION)


def _key(certificate: x509.Certificate, now: datetime) -> RSAPublicKey:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        raise UnverifiedError(Refusal.CERTIFICATE) from None
    in_time = certificate.not_valid_before_utc <= now <= certificate.not_valid_after_utc
    if not in_time or not isinstance(key, RSAPublicKey) or key.key_size < _LEAST_KEY_BITS:
        raise UnverifiedError(Refusal.CERTIFICATE)
    return key


def _signed(envelope: Envelope) -> bytes:
    """Return what SNS signs: names and values, each on a line.

    Its guide, "Verifying the signatures of Amazon SNS messages", has one list for notifications and one for the two
    confirmations: they are this one, less the members that the type doesn't have.
    """
    lines = (
        ("Message", envelope.message),
        ("MessageId", envelope.message_id),
        ("Subject", envelope.subject),
        ("SubscribeURL", envelope.subscribe_url),
        ("Timestamp", envelope.timestamp),
        ("Token", envelope.token),
        ("TopicArn", envelope.topic_arn),
        ("Type", envelope.type.value),
    )
    return "".join(f"{name}\n{value}\n" for name, value in lines if value is not None).encode()
