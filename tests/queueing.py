"""SQS for tests: moto's server in this process, and a queue with its dead-letter queue, as boto3 reaches them."""

import json
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import boto3
from moto.server import ThreadedMotoServer

from api.aws import BATCH, QueueSettings

#: As a deployment has them from its surroundings; moto looks at none, and nothing else may be asked for some.
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "tests",
    "AWS_SECRET_ACCESS_KEY": "tests",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}
REGION = "us-east-1"


def client(endpoint: str) -> Any:
    """Make a client of moto's SQS or, with the same credentials, of anything else there."""
    return boto3.session.Session(aws_access_key_id="tests", aws_secret_access_key="tests", region_name=REGION).client(
        "sqs", endpoint_url=endpoint
    )


@dataclass(frozen=True, slots=True)
class SqsQueue:
    """A queue, and what became of what nobody could take."""

    endpoint: str
    url: str
    dead_url: str
    sqs: Any = field(repr=False)

    def settings(self, **more: Any) -> QueueSettings:
        wanted = {"url": self.url, "endpoint_url": self.endpoint, "region": REGION, "wait_seconds": 1, "receivers": 2}
        return QueueSettings.model_validate(wanted | more)

    def variables(self) -> dict[str, str]:
        """Give the settings of a consumer process, without their prefix FENCEPOST_."""
        own = {"URL": self.url, "ENDPOINT_URL": self.endpoint, "REGION": REGION, "WAIT_SECONDS": "1"}
        return {f"EVENTS_QUEUE_{name}": value for name, value in own.items()}

    def send(self, bodies: Sequence[bytes]) -> None:
        for start in range(0, len(bodies), BATCH):
            entries = [
                {"Id": str(place), "MessageBody": body.decode()}
                for place, body in enumerate(bodies[start : start + BATCH])
            ]
            assert not self.sqs.send_message_batch(QueueUrl=self.url, Entries=entries).get("Failed")

    def left(self) -> Counter[str]:
        """Count what waits, what somebody holds, and what is in the dead-letter queue."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = Counter[str]()
        for of, url in (("queue", self.url), ("dead", self.dead_url)):
            counts = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
            found[of] = sum(int(counts[name]) for name in names)
        return found


@contextmanager
def sqs_server() -> Iterator[str]:
    """Run moto's server, and give its address."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield f"http://{host}:{port}"
    finally:
        server.stop()


def make_queue(endpoint: str, *, tries: int = 3, visibility_seconds: int = 30) -> SqsQueue:
    """Make a queue that gives up what was received so often."""
    sqs = client(endpoint)
    name = uuid4().hex
    dead = sqs.create_queue(QueueName=f"{name}-dead")["QueueUrl"]
    arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": tries})
    attributes = {"RedrivePolicy": policy, "VisibilityTimeout": str(visibility_seconds)}
    url = sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return SqsQueue(endpoint, url, dead, sqs)
