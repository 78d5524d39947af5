"""SQS and SNS as the doors of provider events use them; nowhere else in this layer is boto3."""

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Self, TypeVar

import boto3
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

#: SQS gives and takes no more at a time.
BATCH: Final = 10
#: Beyond a long poll, for its answer.
_ANSWER_SECONDS: Final = 10.0
_CONNECT_SECONDS: Final = 3.0

_URL: Final = re.compile(r"https?://[^/\s]{1,253}/[^\s]{1,512}")
_REGION: Final = re.compile(r"https?://(?:sqs\.)?(?P<region>[a-z]{2,8}(?:-[a-z]{1,16}){1,3}-[0-9]{1,2})\.")

_Answer = TypeVar("_Answer")


class AwsError(Exception):
    """AWS refused a call, or could not be reached; holds its error code or the kind of failure, and no text."""

    def __init__(self, code: str, *, refused: bool) -> None:
        super().__init__(code)
        self.code = code
        self.refused = refused  #: AWS answered, and asking again would change nothing


class QueueSettings(BaseSettings):
    """The queue that `fencepost events` reads."""

    model_config = SettingsConfigDict(
        env_prefix="FENCEPOST_EVENTS_QUEUE_", hide_input_in_errors=True, env_ignore_empty=True
    )

    url: str = Field(description="The SQS queue that SES's events come to, for `fencepost events`.")
    region: str | None = Field(default=None, description="AWS region of the queue. None: the one in its address.")
    endpoint_url: str | None = Field(default=None, description="Another endpoint of SQS than AWS's, for tests.")
    raw: bool = Field(
        default=False,
        description="Take events without SNS's envelope (raw message delivery), too. Nothing is signed then: who may"
        " write into the queue is up to its policy alone.",
    )
    wait_seconds: int = Field(default=20, ge=1, le=20, description="How long a poll of the queue waits for events.")
    visibility_seconds: int = Field(
        default=60, ge=5, le=43_200, description="How long a received event is nobody else's; extended while it takes."
    )
    receivers: int = Field(default=4, ge=1, le=64, description="Polls at a time, each for at most ten events.")

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if _URL.fullmatch(url) is None:
            raise ValueError("it has to look like https://sqs.us-east-1.amazonaws.com/123456789012/ses-events")
        return url


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """Something in the queue."""

    id: str
    body: bytes = field(repr=False)
    receipt: str = field(repr=False)  #: of this delivery; it is what is deleted


class Queue:
    """An SQS queue. Every call raises AwsError; blocking calls run in threads of their own.

    Args:
        settings: Which queue.

    """

    def __init__(self, settings: QueueSettings) -> None:
        self._settings = settings
        found = _REGION.match(settings.url)
        config = Config(
            # Here a second try is harmless: what is received twice is applied once.
            retries={"total_max_attempts": 3, "mode": "standard"},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=settings.wait_seconds + _ANSWER_SECONDS,
            max_pool_connections=2 * settings.receivers + 2,
        )
        self._client = _translated(
            lambda: boto3.session.Session().client(
                "sqs",
                region_name=settings.region or (found["region"] if found else None),
                endpoint_url=settings.endpoint_url,
                config=config,
            )
        )
        self._threads = ThreadPoolExecutor(2 * settings.receivers + 2, thread_name_prefix="queue")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._threads.shutdown()

    async def gives_up(self) -> bool:
        """Say whether the queue puts what nobody can take into a dead-letter queue; also tells that it can be read."""
        answer = await self._run(
            lambda: self._client.get_queue_attributes(QueueUrl=self._settings.url, AttributeNames=["RedrivePolicy"])
        )
        return "RedrivePolicy" in answer.get("Attributes", {})

    async def receive(self) -> list[QueueMessage]:
        """Wait for messages: at most ten, and nobody else's for `visibility_seconds`."""
        answer = await self._run(
            lambda: self._client.receive_message(
                QueueUrl=self._settings.url,
                MaxNumberOfMessages=BATCH,
                WaitTimeSeconds=self._settings.wait_seconds,
                VisibilityTimeout=self._settings.visibility_seconds,
            )
        )
        return [
            QueueMessage(id=each["MessageId"], body=each["Body"].encode(), receipt=each["ReceiptHandle"])
            for each in answer.get("Messages", [])
        ]

    async def delete(self, messages: Sequence[QueueMessage]) -> int:
        """Delete at most ten messages; say how many SQS did not, which will come again."""
        entries = [{"Id": str(place), "ReceiptHandle": each.receipt} for place, each in enumerate(messages)]
        answer = await self._run(
            lambda: self._client.delete_message_batch(QueueUrl=self._settings.url, Entries=entries)  # type: ignore[arg-type]  # a list of its TypedDict
        )
        return len(answer.get("Failed", []))

    async def hold(self, messages: Sequence[QueueMessage], seconds: int) -> None:
        """Keep at most ten messages to ourselves for so long from now; 0 gives them back at once."""
        entries = [
            {"Id": str(place), "ReceiptHandle": each.receipt, "VisibilityTimeout": seconds}
            for place, each in enumerate(messages)
        ]
        await self._run(
            lambda: self._client.change_message_visibility_batch(QueueUrl=self._settings.url, Entries=entries)  # type: ignore[arg-type]  # the same
        )

    async def _run(self, call: Callable[[], _Answer]) -> _Answer:
        return await asyncio.get_running_loop().run_in_executor(self._threads, _translated, call)


def confirm_subscription(topic_arn: str, token: str, *, endpoint_url: str | None) -> str:
    """Give SNS its token back, and return the ARN of the subscription; blocking. Raises AwsError.

    Needs no credentials: the token is the proof. The region is the topic's, which is on our list; no address that came
    with the token is looked at.
    """
    client = boto3.session.Session().client(
        "sns",
        region_name=topic_arn.split(":")[3],
        endpoint_url=endpoint_url,
        config=Config(
            signature_version=UNSIGNED,
            retries={"total_max_attempts": 2, "mode": "standard"},
            connect_timeout=_CONNECT_SECONDS,
            read_timeout=_ANSWER_SECONDS,
        ),
    )
    return _translated(lambda: client.confirm_subscription(TopicArn=topic_arn, Token=token)["SubscriptionArn"])


def _translated(call: Callable[[], _Answer]) -> _Answer:
    try:
        return call()
    except ClientError as error:
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        code = str(error.response.get("Error", {}).get("Code", ""))
        known = code if re.fullmatch(r"[A-Za-z.]{1,80}", code) else str(status)
        raise AwsError(known, refused=400 <= status < 500 and status != 429) from None  # noqa: PLR2004
    except (BotoCoreError, ResponseParserError, KeyError) as error:  # the last two: it was no answer of AWS's
        raise AwsError(type(error).__name__, refused=False) from None
