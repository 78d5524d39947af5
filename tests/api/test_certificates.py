"""Fetches through a real proxy from a real TLS server, and what becomes of each answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.certificates import MAX_BYTES, MAX_KEPT, CertificateRefusedError, Certificates, CertificateUnavailableError
from tests.api.sns_signing import HOST, PATH, URL, certificate, rsa_key, tls_sides
from tests.api.trap import Answer, Trap, trap
from tests.waiting import until


@dataclass(slots=True)
class Fetching:
    trap: Trap
    certificates: Certificates


@pytest.fixture
async def fetching(tmp_path: Path) -> AsyncIterator[Fetching]:
    serving, trusting = tls_sides(tmp_path)
    async with trap(serving) as caught:
        certificates = Certificates(verify=trusting, proxy=caught.proxy_url)
        yield Fetching(caught, certificates)
        await certificates.aclose()


async def test_a_certificate_is_fetched_once_and_then_kept(fetching: Fetching) -> None:
    fetching.trap.answers[PATH] = Answer(body=certificate(rsa_key()))

    first, second = [await fetching.certificates.get(URL) for _ in range(2)]

    assert first is second
    assert fetching.trap.connections == [f"CONNECT {HOST}:443 HTTP/1.1"]
    assert fetching.trap.requests == [f"GET {PATH} HTTP/1.1"]


async def test_callers_at_the_same_time_share_one_fetch_even_if_the_first_goes_away(fetching: Fetching) -> None:
    held = asyncio.Event()
    fetching.trap.answers[PATH] = Answer(body=certificate(rsa_key()), held=held)
    first, *others = [asyncio.create_task(fetching.certificates.get(URL)) for _ in range(5)]
    await until(lambda: fetching.trap.requests, within=10)

    first.cancel()
    held.set()
    got = await asyncio.gather(*others)

    assert len({id(each) for each in got}) == 1
    assert first.cancelled()
    assert len(fetching.trap.requests) == 1


async def test_only_so_many_certificates_are_kept(fetching: Fetching) -> None:
    pem = certificate(rsa_key())
    paths = [f"/SimpleNotificationService-{number:032x}.pem" for number in range(MAX_KEPT + 1)]
    fetching.trap.answers.update({path: Answer(body=pem) for path in paths})
    for path in paths:
        await fetching.certificates.get(f"https://{HOST}{path}")

    await fetching.certificates.get(f"https://{HOST}{paths[-1]}")
    await fetching.certificates.get(f"https://{HOST}{paths[0]}")

    assert [request.split(" ")[1] for request in fetching.trap.requests] == [*paths, paths[0]]


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=302, headers=(f"Location: https://{HOST}/other.pem",)),
        Answer(status=301, headers=("Location: http://169.254.169.254/latest/meta-data/",)),
        Answer(status=404),
        Answer(status=204),
        Answer(body=b"<html>not here</html>"),
        Answer(body=b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        Answer(body=b"", headers=("Content-Encoding: gzip",)),
        Answer(body=b" " * (MAX_BYTES + 1)),
    ],
    ids=["redirect", "redirect away", "404", "204", "html", "rubbish", "packed", "too long"],
)
async def test_what_aws_cannot_mean_is_refused_and_followed_nowhere(fetching: Fetching, answer: Answer) -> None:
    fetching.trap.answers[PATH] = answer

    with pytest.raises(CertificateRefusedError):
        await fetching.certificates.get(URL)

    assert len(fetching.trap.connections) == len(fetching.trap.requests) == 1


async def test_an_endless_answer_is_read_no_further_than_the_bound(fetching: Fetching) -> None:
    fetching.trap.answers[PATH] = Answer(body=b"x" * 1024, endless=True)

    with pytest.raises(CertificateRefusedError):
        await fetching.certificates.get(URL)

    # What lies in the buffers of two sockets is more than what was read.
    assert fetching.trap.written < 64 * 1024 * 1024


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_may_pass_is_unavailable_and_not_kept(fetching: Fetching, status: int) -> None:
    fetching.trap.answers[PATH] = Answer(status=status)
    with pytest.raises(CertificateUnavailableError):
        await fetching.certificates.get(URL)
    fetching.trap.answers[PATH] = Answer(body=certificate(rsa_key()))

    await fetching.certificates.get(URL)

    assert len(fetching.trap.requests) == 2


async def test_a_proxy_that_refuses_is_unavailable(fetching: Fetching) -> None:
    fetching.trap.refuses = True

    with pytest.raises(CertificateUnavailableError):
        await fetching.certificates.get(URL)


async def test_a_server_that_drips_is_given_up_after_the_whole_time(tmp_path: Path) -> None:
    serving, trusting = tls_sides(tmp_path)
    async with trap(serving) as caught:
        caught.answers[PATH] = Answer(body=b"-", endless=True, every=0.05)
        certificates = Certificates(verify=trusting, proxy=caught.proxy_url, total_seconds=1)

        with pytest.raises(CertificateUnavailableError):
            await asyncio.wait_for(certificates.get(URL), timeout=30)

        await certificates.aclose()


async def test_a_host_that_cannot_prove_its_name_is_asked_nothing(fetching: Fetching) -> None:
    for url in (f"https://sns.eu-west-1.amazonaws.com{PATH}", f"https://{HOST}.evil.example{PATH}"):
        with pytest.raises(CertificateUnavailableError):
            await fetching.certificates.get(url)

    assert fetching.trap.requests == []


async def test_an_authority_that_is_not_trusted_is_asked_nothing(tmp_path: Path) -> None:
    serving, _ = tls_sides(tmp_path)
    async with trap(serving) as caught:
        caught.answers[PATH] = Answer(body=certificate(rsa_key()))
        certificates = Certificates(proxy=caught.proxy_url)

        with pytest.raises(CertificateUnavailableError):
            await certificates.get(URL)

        assert caught.requests == []
        await certificates.aclose()


async def test_closing_ends_a_fetch(fetching: Fetching) -> None:
    fetching.trap.answers[PATH] = Answer(held=asyncio.Event())
    waiting = asyncio.create_task(fetching.certificates.get(URL))
    await until(lambda: fetching.trap.requests, within=10)

    await fetching.certificates.aclose()

    with pytest.raises(asyncio.CancelledError):
        await waiting
