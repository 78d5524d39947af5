"""Amazon SES behind the Provider protocol: building the request, and what each answer means. Nowhere else is boto3."""

from dataclasses import dataclass
from typing import Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    ClientError,
    ConnectionError as BotoConnectionError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    NoAuthTokenError,
    NoCredentialsError,
    ParamValidationError,
    PartialCredentialsError,
    ReadTimeoutError,
)
from botocore.parsers import ResponseParserError
from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict
from typing_extensions import override

from activities import watched_http
from activities.mailbox import mailbox
from activities.watched_http import Watch
from db.outcomes import Outcome, Reason
from db.records import CallResult, Submission

#: The name by which messages, attempts and the switch know this provider.
NAME: Final = "ses"

#: Refusals that may change by themselves, and count as an attempt.
_THROTTLED: Final = frozenset(
    {
        "LimitExceededException",
        "TooManyRequests",
        "TooManyRequestsException",
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottled",
        "RequestThrottledException",
    }
)
#: SES says so in the text of a throttling error only; the quota is of 24 hours, so a short wait is no use.
_DAILY_QUOTA: Final = "daily message quota"
_ACCOUNT_PAUSED: Final = frozenset({"SendingPausedException", "AccountSuspendedException"})
_CREDENTIALS: Final = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_REJECTED: Final = frozenset(
    {
        "BadRequestException",
        "InvalidParameterValue",
        "MailFromDomainNotVerifiedException",
        "MessageRejected",
        "NotFoundException",
        "ValidationException",
    }
)


class SesSettings(BaseSettings):
    """How SES is reached. Credentials come from where boto3 finds them."""

    model_config = SettingsConfigDict(env_prefix="FENCEPOST_SES_", hide_input_in_errors=True)

    region: str = Field(default="us-east-1", description="AWS region of the SES account.")
    endpoint_url: str | None = Field(default=None, description="Another endpoint, such as the simulator's.")
    configuration_set: str = Field(
        default="fencepost", description="Sent with every submission: without it SES reports no events."
    )
    connect_timeout_seconds: float = Field(default=2, gt=0, description="For a connection to SES.")
    read_timeout_seconds: float = Field(default=8, gt=0, description="For each read of SES's answer.")
    longest_rest_seconds: float = Field(
        default=4, ge=0, description="A kept connection that rested longer is opened anew before it is used."
    )


@dataclass(frozen=True, slots=True)
class SesRequest:
    """The arguments of one SendEmail; protected, so `repr` shows none."""

    arguments: dict[str, Any]

    @override
    def __repr__(self) -> str:
        return "SesRequest(...)"


class SesProvider:
    """Submits through SES v2's SendEmail, which takes no client token: a second request is a second mail.

    Build one a process, at start-up: clients may be shared between threads, making them may not (boto3#1592).

    Args:
        settings: Where SES is.
        connections: As many as there are threads that call.

    """

    name = NAME

    def __init__(self, settings: SesSettings, *, connections: int) -> None:
        self._configuration_set = settings.configuration_set
        self._client = boto3.session.Session().client(
            "sesv2",
            region_name=settings.region,
            endpoint_url=settings.endpoint_url,
            config=Config(
                # A second attempt could be a second mail. `total_max_attempts` alone holds against the environment
                # (AWS_MAX_ATTEMPTS, AWS_RETRY_MODE): `max_attempts` counts retries, and a mode alone sets a default.
                retries={"total_max_attempts": 1, "mode": "standard"},
                connect_timeout=settings.connect_timeout_seconds,
                read_timeout=settings.read_timeout_seconds,
                max_pool_connections=connections,
                tcp_keepalive=True,
            ),
        )
        retries = self._client.meta.config.retries  # type: ignore[attr-defined]  # set by its options, which have no stub
        if retries.get("total_max_attempts") != 1:
            raise RuntimeError("boto3 would retry a submission: it must make exactly one request")
        watched_http.install(self._client, longest_rest=settings.longest_rest_seconds)

    def prepare(self, submission: Submission) -> SesRequest:
        """Build the arguments of SendEmail. The tags are what a provider event brings back (DESIGN: evidence)."""
        by_role: dict[str, list[str]] = {"to": [], "cc": [], "bcc": []}
        for recipient in submission.recipients:
            by_role[recipient.role].append(mailbox(recipient.address, recipient.name))
        body: dict[str, Any] = {"Text": {"Data": submission.text, "Charset": "UTF-8"}}
        if submission.html is not None:
            body["Html"] = {"Data": submission.html, "Charset": "UTF-8"}
        own_tags = {
            "fencepost_message": str(submission.message_id),
            "fencepost_attempt": str(submission.attempt),
            # SES allows no colon in a tag: the hash goes without the version that stands before it.
            "fencepost_request": submission.request_hash.rpartition(":")[2],
        }
        return SesRequest(
            {
                "FromEmailAddress": mailbox(submission.sender.address, submission.sender.name),
                "Destination": {
                    "ToAddresses": by_role["to"],
                    "CcAddresses": by_role["cc"],
                    "BccAddresses": by_role["bcc"],
                },
                "ReplyToAddresses": [mailbox(each.address, each.name) for each in submission.reply_to],
                "Content": {
                    "Simple": {
                        "Subject": {"Data": submission.subject, "Charset": "UTF-8"},
                        "Body": body,
                        "Headers": [{"Name": name, "Value": value} for name, value in submission.headers],
                    }
                },
                "EmailTags": [
                    {"Name": name, "Value": value} for name, value in {**submission.tags, **own_tags}.items()
                ],
                "ConfigurationSetName": self._configuration_set,
            }
        )

    def call(self, request: SesRequest, *, deadline: float) -> CallResult:
        """Make one SendEmail request, and say what its answer means."""
        with Watch(deadline) as watch:
            try:
                answer = self._client.send_email(**request.arguments)
            except Exception as error:  # noqa: BLE001  (each kind means something, and none may escape)
                return classify(error, watch)
        request_id = answer.get("ResponseMetadata", {}).get("RequestId")
        message_id = answer.get("MessageId")
        if not message_id:  # an unreadable success comes back as an empty dictionary, without an exception
            reason = Reason.PROVIDER_TIMEOUT if watch.fired else Reason.RESPONSE_UNREADABLE
            return _result(Outcome.UNKNOWN, reason, request_id=request_id)
        return _result(Outcome.ACCEPTED, None, request_id=request_id, provider_message_id=message_id)


def classify(error: Exception, watch: Watch) -> CallResult:
    """Say what a failed call means (DESIGN: what a provider answer means). What is not listed is `unknown`.

    "Nothing was submitted" needs two witnesses: the kind of error, and that no byte of the request left.
    """
    match error:
        case ClientError():
            return _classify_answer(error)
        case ParamValidationError():
            return _result(Outcome.REJECTED, Reason.REQUEST_INVALID)
        case NoCredentialsError() | PartialCredentialsError() | CredentialRetrievalError() | NoAuthTokenError():
            return _result(Outcome.REFUSED, Reason.CREDENTIALS_REFUSED)
        case EndpointConnectionError() | ConnectTimeoutError() if not watch.sent:
            return _result(Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE)
        case _ if watch.fired and not watch.sent:
            return _result(Outcome.NOT_SUBMITTED, Reason.CALL_TOO_LATE)
        case HTTPClientError() | BotoConnectionError() if watch.fired:
            return _result(Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT)
        case ReadTimeoutError():
            return _result(Outcome.UNKNOWN, Reason.PROVIDER_TIMEOUT)
        case HTTPClientError() | BotoConnectionError():  # the latter is TLS's, too: it comes before and after sending
            return _result(Outcome.UNKNOWN, Reason.CONNECTION_LOST)
        case ResponseParserError():
            return _result(Outcome.UNKNOWN, Reason.RESPONSE_UNREADABLE)
        case _:
            return _result(Outcome.UNKNOWN, Reason.PROVIDER_ERROR)


def _classify_answer(error: ClientError) -> CallResult:
    """Read an answer with an error status. Its text is looked at, and goes no further: it can hold addresses."""
    metadata = error.response.get("ResponseMetadata", {})
    status, request_id = metadata.get("HTTPStatusCode", 0), metadata.get("RequestId")
    code = str(error.response.get("Error", {}).get("Code", ""))
    text = str(error.response.get("Error", {}).get("Message", "")).lower()
    outcome, reason = Outcome.UNKNOWN, Reason.PROVIDER_ERROR
    if 400 <= status < 500 and status != 408:  # noqa: PLR2004  (408: it may have read the whole request)
        if status == 429 or code in _THROTTLED:  # noqa: PLR2004
            outcome = Outcome.REFUSED
            reason = Reason.QUOTA_EXCEEDED if _DAILY_QUOTA in text else Reason.THROTTLED
        elif code in _ACCOUNT_PAUSED:
            outcome, reason = Outcome.REFUSED, Reason.ACCOUNT_PAUSED
        elif code in _CREDENTIALS:
            outcome, reason = Outcome.REFUSED, Reason.CREDENTIALS_REFUSED
        elif code in _REJECTED:
            outcome, reason = Outcome.REJECTED, Reason.REJECTED
    known = _THROTTLED | _ACCOUNT_PAUSED | _CREDENTIALS | _REJECTED
    return _result(outcome, reason, request_id=request_id, code=code if code in known else str(status))


def _result(
    outcome: Outcome,
    reason: Reason | None,
    *,
    request_id: str | None = None,
    provider_message_id: str | None = None,
    code: str | None = None,
) -> CallResult:
    return CallResult(
        outcome=outcome,
        provider=NAME,
        reason=reason,
        request_id=request_id,
        provider_message_id=provider_message_id,
        code=code,
    )
