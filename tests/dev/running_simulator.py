"""A simulator as a process of its own, and boto3 or plain bytes as its client."""

import asyncio
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
from botocore.config import Config
from mypy_boto3_sesv2 import SESV2Client

ROOT = Path(__file__).parents[2]
SEND_EMAIL = "/v2/email/outbound-emails"

# One session reads the service model once for all clients.
SESSION = boto3.session.Session()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSimulator:
    """Where a simulator answers, and ways to ask it."""

    process: asyncio.subprocess.Process
    control: httpx.AsyncClient
    endpoint: httpx.AsyncClient
    endpoint_url: str
    ses: SESV2Client

    @property
    def endpoint_port(self) -> int:
        return int(self.endpoint_url.rpartition(":")[2])

    async def submit(
        self,
        *to: str,
        cc: Sequence[str] = (),
        bcc: Sequence[str] = (),
        headers: dict[str, str] | None = None,
        tags: dict[str, str] | None = None,
        subject: str = "Welcome",
        html: str = "<p>Hello",
    ) -> str | None:
        """Submit a mail through boto3 and return the message id; raises what boto3 raises."""
        answer = await asyncio.to_thread(
            self.ses.send_email,
            FromEmailAddress="Demo <hello@demo.example.com>",
            Destination={"ToAddresses": to, "CcAddresses": cc, "BccAddresses": bcc},
            ReplyToAddresses=["help@demo.example.com"],
            Content={
                "Simple": {
                    "Subject": {"Data": subject},
                    "Body": {"Text": {"Data": "Hello"}, "Html": {"Data": html}},
                    "Headers": [{"Name": name, "Value": value} for name, value in (headers or {}).items()],
                }
            },
            EmailTags=[{"Name": name, "Value": value} for name, value in (tags or {}).items()],
            ConfigurationSetName="fencepost",
        )
        # The simulator leaves the id out where a fault asks for it, which the stubs don't know.
        return dict(answer).get("MessageId")  # type: ignore[return-value]  # the id is a string wherever it is there

    async def submissions(self, tag: str | None = None) -> list[dict[str, Any]]:
        """Return the record."""
        answer = await self.control.get("/_sim/submissions", params={} if tag is None else {"tag": tag})
        data: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
        return data

    def holds(self, recipient: str) -> bool:
        """Say whether the record has a submission to this recipient; for conditions to wait on."""
        return recipient in httpx.get(f"{self.control.base_url}/_sim/submissions", trust_env=False).text

    async def post(self, path: str, body: object = None) -> None:
        """Make a control call that succeeds."""
        (await self.control.post(path, json=body)).raise_for_status()


@contextlib.asynccontextmanager
async def running_simulator(directory: Path, *options: str) -> AsyncIterator[RunningSimulator]:
    """Start a simulator on free ports, with further options, and end it."""
    process = await start("--port", "0", "--ses-port", "0", "--dir", str(directory), *options)
    try:
        assert process.stdout is not None
        line = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
        page_url, endpoint_url = re.findall(r"http://127\.0\.0\.1:\d+", line)
        async with http_client(page_url) as control, http_client(endpoint_url) as endpoint:
            yield RunningSimulator(
                process=process,
                control=control,
                endpoint=endpoint,
                endpoint_url=endpoint_url,
                ses=ses_client(endpoint_url),
            )
    finally:
        if process.returncode is None:
            process.terminate()
        await asyncio.wait_for(process.wait(), 10)


def http_client(base_url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, trust_env=False, timeout=10)


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """Start ``python -m dev.simulator`` with these arguments."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dev.simulator", *arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def ses_client(endpoint_url: str) -> SESV2Client:
    """Return a boto3 client that asks once and waits a second for each read."""
    return SESSION.client(
        "sesv2",
        endpoint_url=endpoint_url,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test",
        config=Config(
            retries={"total_max_attempts": 1}, connect_timeout=2, read_timeout=0.8, proxies={}, max_pool_connections=20
        ),
    )


def request_bytes(to: str, *headers: str) -> bytes:
    """Return a whole HTTP request that submits a mail to this recipient."""
    body = json.dumps(a_request(to)).encode()
    lines = [f"POST {SEND_EMAIL} HTTP/1.1", "Host: ses", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


def a_request(to: str = "ada@example.com") -> dict[str, Any]:
    """Return the body of a request with nothing but what SES demands."""
    return {
        "FromEmailAddress": "hello@demo.example.com",
        "Destination": {"ToAddresses": [to]},
        "Content": {"Simple": {"Subject": {"Data": "Welcome"}, "Body": {"Text": {"Data": "Hello"}}}},
    }
