"""What each answer of the provider means: every row of the table, through boto3 itself, against a real socket.

The environment is as hostile as it can be: it asks boto3 for five attempts in every way it knows. Each case also says
how many requests were read whole, since a second one would be a second mail.
"""

import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import boto3
import pytest
from botocore.exceptions import ConnectTimeoutError, EndpointConnectionError, HTTPClientError
from botocore.parsers import ResponseParserError

from activities import watched_http
from activities.ses import SesProvider, SesRequest, SesSettings, classify
from activities.watched_http import Watch
from db.ids import new_message_id
from db.outcomes import Outcome, Reason
from db.records import Addressee, CallResult, Submission
from tests.activities.scripted_server import Script, answer, close, cut, drip, error, hang, reset, serving

BUDGET = 1.5
ID = b'{"MessageId": "ses-1"}'


@pytest.fixture(autouse=True)
def hostile_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", "legacy")
    monkeypatch.setenv("AWS_NEW_RETRIES_2026", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "nothing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")


def provider(url: str) -> SesProvider:
    settings = SesSettings(endpoint_url=url, connect_timeout_seconds=0.5, read_timeout_seconds=0.5)
    return SesProvider(settings, connections=2)


SUBMISSION = Submission(
    message_id=new_message_id(),
    attempt=2,
    request_hash="v1:" + "ab" * 32,
    sender=Addressee(role="from", address="hello@acme.example.com", name="Acme"),
    recipients=(
        Addressee(role="to", address="ada@example.com", name="Ada"),
        Addressee(role="cc", address="bob@example.com", name=None),
        Addressee(role="bcc", address="eve@example.com", name=None),
    ),
    reply_to=(Addressee(role="reply_to", address="help@acme.example.com", name=None),),
    subject="Hello",
    text="Dear Ada",
    html="<p>Dear Ada",
    headers=(("X-Order", "17"),),
    tags={"order": "17"},
)


def call(url: str, *, budget: float = BUDGET, submission: Submission = SUBMISSION) -> CallResult:
    ses = provider(url)
    return ses.call(ses.prepare(submission), deadline=time.monotonic() + budget)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table."""

    script: Script
    outcome: Outcome
    reason: Reason | None
    code: str | None = None


A, R, D, U = Outcome.ACCEPTED, Outcome.REFUSED, Outcome.REJECTED, Outcome.UNKNOWN
ACCOUNT = Reason.ACCOUNT_PAUSED
CREDENTIALS = Reason.CREDENTIALS_REFUSED
ROWS = {
    "2xx with an id": Row(answer(200, ID), A, None),
    "2xx without an id": Row(answer(200, b"{}"), U, Reason.RESPONSE_UNREADABLE),
    "2xx with an empty id": Row(answer(200, b'{"MessageId": ""}'), U, Reason.RESPONSE_UNREADABLE),
    "2xx with HTML": Row(answer(200, b"<html>"), U, Reason.RESPONSE_UNREADABLE),
    "2xx with nothing": Row(answer(200, b""), U, Reason.RESPONSE_UNREADABLE),
    "2xx cut off": Row(cut, U, Reason.RESPONSE_UNREADABLE),
    "302": Row(answer(302, b"", headers="Location: http://127.0.0.1:1/\r\n"), U, Reason.PROVIDER_ERROR, "302"),
    "302 that says rejected": Row(error(302, "MessageRejected"), U, Reason.PROVIDER_ERROR, "MessageRejected"),
    "408": Row(error(408, "RequestTimeout"), U, Reason.PROVIDER_ERROR, "408"),
    "408 that says throttled": Row(error(408, "ThrottlingException"), U, Reason.PROVIDER_ERROR, "ThrottlingException"),
    "500": Row(error(500, "InternalFailure"), U, Reason.PROVIDER_ERROR, "500"),
    "500 that says throttled": Row(error(500, "ThrottlingException"), U, Reason.PROVIDER_ERROR, "ThrottlingException"),
    "502": Row(answer(502, b"<html>"), U, Reason.PROVIDER_ERROR, "502"),
    "503": Row(error(503, "ServiceUnavailable"), U, Reason.PROVIDER_ERROR, "503"),
    "504": Row(answer(504, b""), U, Reason.PROVIDER_ERROR, "504"),
    "unknown code": Row(error(400, "NeverHeardOf"), U, Reason.PROVIDER_ERROR, "400"),
    "400 without a code": Row(answer(400, b"<html>"), U, Reason.PROVIDER_ERROR, "400"),
    "429": Row(error(429, "TooManyRequestsException"), R, Reason.THROTTLED, "TooManyRequestsException"),
    "429 without a code": Row(answer(429, b""), R, Reason.THROTTLED, "429"),
    "throttled": Row(error(400, "ThrottlingException"), R, Reason.THROTTLED, "ThrottlingException"),
    "limit exceeded": Row(error(400, "LimitExceededException"), R, Reason.THROTTLED, "LimitExceededException"),
    "daily quota": Row(
        error(400, "ThrottlingException", "Daily message quota exceeded."),
        R,
        Reason.QUOTA_EXCEEDED,
        "ThrottlingException",
    ),
    "paused": Row(error(400, "SendingPausedException"), R, ACCOUNT, "SendingPausedException"),
    "suspended": Row(error(400, "AccountSuspendedException"), R, ACCOUNT, "AccountSuspendedException"),
    **{
        name: Row(error(403, name), R, CREDENTIALS, name)
        for name in (
            "AccessDeniedException",
            "ExpiredTokenException",
            "InvalidClientTokenId",
            "SignatureDoesNotMatch",
            "UnrecognizedClientException",
            "RequestExpired",
        )
    },
    "rejected": Row(error(400, "MessageRejected"), D, Reason.REJECTED, "MessageRejected"),
    "mail from": Row(
        error(400, "MailFromDomainNotVerifiedException"), D, Reason.REJECTED, "MailFromDomainNotVerifiedException"
    ),
    "bad request": Row(error(400, "BadRequestException"), D, Reason.REJECTED, "BadRequestException"),
    "not found": Row(error(404, "NotFoundException"), D, Reason.REJECTED, "NotFoundException"),
    "no answer": Row(hang, U, Reason.PROVIDER_TIMEOUT),
    "an answer that drips": Row(drip, U, Reason.PROVIDER_TIMEOUT),
    "closed after reading": Row(close, U, Reason.CONNECTION_LOST),
    "reset after reading": Row(reset, U, Reason.CONNECTION_LOST),
}


@pytest.mark.parametrize("name", ROWS)
def test_every_answer_means_what_the_table_says_after_one_request(name: str) -> None:
    row = ROWS[name]

    with serving(row.script) as server:
        result = call(server.url)

    assert (result.outcome, result.reason, result.code) == (row.outcome, row.reason, row.code)
    assert result.provider_message_id == ("ses-1" if row.outcome is A else None)
    assert len(server.requests) == 1


@pytest.mark.parametrize("mode", ["standard", "adaptive"])
@pytest.mark.parametrize("name", ["500", "429", "closed after reading"])
def test_no_retry_mode_makes_a_second_request(monkeypatch: pytest.MonkeyPatch, mode: str, name: str) -> None:
    monkeypatch.setenv("AWS_RETRY_MODE", mode)

    with serving(ROWS[name].script) as server:
        call(server.url)

    assert len(server.requests) == 1


def test_an_answers_text_goes_nowhere() -> None:
    with serving(error(400, "MessageRejected", "ada@example.com is not verified")) as server:
        result = call(server.url)

    assert "ada@" not in repr(result)


def test_a_connection_that_is_closed_before_reading_is_unknown() -> None:
    def reset_unread(connection: socket.socket) -> None:
        connection.recv(1, socket.MSG_PEEK)
        reset(connection)

    with serving(reset_unread, read=False) as server:
        result = call(server.url)

    assert (result.outcome, result.reason) == (U, Reason.CONNECTION_LOST)


def test_a_refused_connection_submits_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]

    result = call(f"http://127.0.0.1:{port}")

    assert (result.outcome, result.reason) == (Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE)


def test_a_name_that_does_not_resolve_submits_nothing() -> None:
    result = call("http://nowhere.invalid")

    assert (result.outcome, result.reason) == (Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE)


@pytest.fixture
def black_hole() -> Iterator[int]:
    """Listen without ever accepting, the queue full: a connection attempt gets no answer."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    fillers = [socket.socket() for _ in range(4)]
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
    yield listener.getsockname()[1]
    for each in (*fillers, listener):
        each.close()


def test_a_connection_that_does_not_come_about_in_time_submits_nothing(black_hole: int) -> None:
    result = call(f"http://127.0.0.1:{black_hole}")

    assert (result.outcome, result.reason) == (Outcome.NOT_SUBMITTED, Reason.PROVIDER_UNREACHABLE)


@pytest.mark.parametrize("error", [EndpointConnectionError, ConnectTimeoutError])
@pytest.mark.parametrize(("sent", "outcome"), [(False, Outcome.NOT_SUBMITTED), (True, U)])
def test_no_kind_of_error_says_that_nothing_was_submitted_where_a_byte_may_have_left(
    error: type[EndpointConnectionError | ConnectTimeoutError], sent: bool, outcome: Outcome
) -> None:
    watch = Watch(time.monotonic() + BUDGET)
    watch.sent = sent

    assert classify(error(endpoint_url="http://127.0.0.1"), watch).outcome is outcome


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ResponseParserError(), Reason.RESPONSE_UNREADABLE), (RuntimeError(), Reason.PROVIDER_ERROR)],
    ids=["unreadable", "unforeseen"],
)
def test_an_error_that_says_nothing_of_what_was_sent_is_unknown(error: Exception, reason: Reason) -> None:
    result = classify(error, Watch(time.monotonic() + BUDGET))

    assert (result.outcome, result.reason) == (U, reason)


def test_tls_that_fails_is_unknown() -> None:
    with serving(answer(400, b""), read=False) as server:
        result = call(server.url.replace("http:", "https:"))

    assert (result.outcome, result.reason) == (U, Reason.CONNECTION_LOST)


def test_a_call_that_is_too_late_sends_nothing() -> None:
    with serving(answer(200, ID)) as server:
        result = call(server.url, budget=-0.01)

    assert (result.outcome, result.reason) == (Outcome.NOT_SUBMITTED, Reason.CALL_TOO_LATE)
    assert server.requests == []


def test_a_request_that_nobody_watches_is_not_sent() -> None:
    with serving(answer(200, ID)) as server:
        client = boto3.session.Session().client("sesv2", region_name="us-east-1", endpoint_url=server.url)
        watched_http.install(client, longest_rest=4)
        with pytest.raises(HTTPClientError):
            client.send_email(Content={"Template": {"TemplateName": "none"}})

    assert server.requests == []


@pytest.mark.parametrize("script", [drip, hang])
def test_the_call_budget_ends_a_call_whatever_the_provider_does(script: Script) -> None:
    settings = SesSettings(connect_timeout_seconds=0.5, read_timeout_seconds=60)
    with serving(script) as server:
        ses = SesProvider(settings.model_copy(update={"endpoint_url": server.url}), connections=1)
        begun = time.monotonic()
        result = ses.call(ses.prepare(SUBMISSION), deadline=begun + 0.7)
        spent = time.monotonic() - begun

    assert (result.outcome, result.reason) == (U, Reason.PROVIDER_TIMEOUT)
    assert 0.6 < spent < 5


def test_parameters_that_the_client_library_refuses_are_rejected_before_any_request() -> None:
    with serving(answer(200, ID)) as server:
        result = provider(server.url).call(SesRequest({"Content": 1}), deadline=time.monotonic() + BUDGET)

    assert (result.outcome, result.reason) == (D, Reason.REQUEST_INVALID)
    assert server.requests == []


def test_missing_credentials_are_an_account_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with serving(answer(200, ID)) as server:
        result = call(server.url)

    assert (result.outcome, result.reason) == (R, Reason.CREDENTIALS_REFUSED)
    assert server.requests == []


def test_the_request_carries_everything_that_was_asked_for_and_nothing_else() -> None:
    with serving(answer(200, ID)) as server:
        call(server.url)

    body = json.loads(server.requests[0].partition(b"\r\n\r\n")[2])
    assert body == {
        "FromEmailAddress": "Acme <hello@acme.example.com>",
        "Destination": {
            "ToAddresses": ["Ada <ada@example.com>"],
            "CcAddresses": ["bob@example.com"],
            "BccAddresses": ["eve@example.com"],
        },
        "ReplyToAddresses": ["help@acme.example.com"],
        "Content": {
            "Simple": {
                "Subject": {"Data": "Hello", "Charset": "UTF-8"},
                "Body": {
                    "Text": {"Data": "Dear Ada", "Charset": "UTF-8"},
                    "Html": {"Data": "<p>Dear Ada", "Charset": "UTF-8"},
                },
                "Headers": [{"Name": "X-Order", "Value": "17"}],
            }
        },
        "EmailTags": [
            {"Name": "order", "Value": "17"},
            {"Name": "fencepost_message", "Value": str(SUBMISSION.message_id)},
            {"Name": "fencepost_attempt", "Value": "2"},
            {"Name": "fencepost_request", "Value": "ab" * 32},
        ],
        "ConfigurationSetName": "fencepost",
    }
    assert "ada" not in repr(provider(server.url).prepare(SUBMISSION)).lower()


def test_calls_from_many_threads_each_make_one_request() -> None:
    with serving(answer(200, ID)) as server, ThreadPoolExecutor(8) as threads:
        ses = SesProvider(SesSettings(endpoint_url=server.url), connections=8)
        prepared = ses.prepare(SUBMISSION)
        results = list(threads.map(lambda _: ses.call(prepared, deadline=time.monotonic() + 10), range(40)))

    assert {result.outcome for result in results} == {A}
    assert len(server.requests) == 40


@pytest.mark.parametrize(("rest", "connections"), [(60.0, 1), (0.0, 2)])
def test_a_connection_that_rested_too_long_is_opened_anew(rest: float, connections: int) -> None:
    """The provider may be closing it just now, and a request that is lost to that looks like one that was taken."""
    opened = set()

    def count(connection: socket.socket) -> None:
        opened.add(connection.getpeername())
        answer(200, ID)(connection)

    with serving(count) as server:
        ses = SesProvider(SesSettings(endpoint_url=server.url, longest_rest_seconds=rest), connections=1)
        for _ in range(2):
            ses.call(ses.prepare(SUBMISSION), deadline=time.monotonic() + BUDGET)

    assert len(opened) == connections
