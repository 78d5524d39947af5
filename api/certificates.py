"""The certificates that SNS signs with: fetched within bounds, and kept by address."""

import asyncio
import ssl
from asyncio import Task
from typing import Final

import httpx
from cryptography import x509

#: SNS's certificates have some 2 KiB.
MAX_BYTES: Final = 16 * 1024
#: There is one at a time for each region, and a few in the days in which it changes.
MAX_KEPT: Final = 32
#: Addresses that somebody makes up mustn't open any number of connections; the rest waits, within its own time.
_MAX_CONNECTIONS: Final = 4


class CertificateUnavailableError(Exception):
    """The certificate couldn't be fetched now; it may be possible later."""


class CertificateRefusedError(Exception):
    """What stands at the address is no certificate, and asking again won't change that."""


class Certificates:
    """Fetches certificates, one request an address at a time, and keeps those that it got.

    It neither judges an address nor a certificate: the caller does so, before each fetch and at each use.

    Args:
        verify: The authorities that a server is checked against. True: those of SSL_CERT_FILE, or of the web.
        proxy: The proxy to go through. None: the one that HTTPS_PROXY names, if any, as for boto3.
        total_seconds: Wall clock for one fetch, from looking up the host to the last byte.

    """

    def __init__(
        self, *, verify: ssl.SSLContext | bool = True, proxy: str | None = None, total_seconds: float = 5
    ) -> None:
        self._client = httpx.AsyncClient(
            verify=verify,
            proxy=proxy,
            follow_redirects=False,
            timeout=total_seconds,
            limits=httpx.Limits(max_connections=_MAX_CONNECTIONS, max_keepalive_connections=0),
            # An answer that unpacks to more than was read would get around the bound.
            headers={"Accept-Encoding": "identity"},
        )
        self._total_seconds = total_seconds
        self._kept: dict[str, x509.Certificate] = {}
        self._fetching: dict[str, Task[x509.Certificate]] = {}

    async def get(self, url: str) -> x509.Certificate:
        """Return the certificate at an address; a failure is not kept.

        Raises `CertificateUnavailableError` for what may pass: no connection, no end within the time, a TLS certificate
        that can't be verified, 429 and 5xx. Raises `CertificateRefusedError` for what AWS can't mean: a redirect, any
        other status, more than `MAX_BYTES`, no PEM certificate.
        """
        if (kept := self._kept.get(url)) is not None:
            return kept
        fetch = self._fetching.get(url)
        if fetch is None:
            fetch = asyncio.create_task(self._fetch(url))
            self._fetching[url] = fetch
            fetch.add_done_callback(lambda done: self._fetched(url, done))
        # One caller that goes away mustn't take the fetch from the others.
        return await asyncio.shield(fetch)

    async def aclose(self) -> None:
        """End what is going on, and close the connections."""
        fetches = list(self._fetching.values())
        for fetch in fetches:
            fetch.cancel()
        await asyncio.gather(*fetches, return_exceptions=True)
        await self._client.aclose()

    def _fetched(self, url: str, fetch: Task[x509.Certificate]) -> None:
        del self._fetching[url]
        # Asking for the exception also keeps asyncio from complaining where every caller went away.
        if fetch.cancelled() or fetch.exception() is not None:
            return
        while len(self._kept) >= MAX_KEPT:
            del self._kept[next(iter(self._kept))]
        self._kept[url] = fetch.result()

    async def _fetch(self, url: str) -> x509.Certificate:
        try:
            # httpx's own timeouts are per read: a server that drips would never meet them.
            async with asyncio.timeout(self._total_seconds):
                pem = await self._read(url)
        except (httpx.RequestError, TimeoutError) as error:
            raise CertificateUnavailableError(type(error).__name__) from None
        try:
            return x509.load_pem_x509_certificate(pem)
        except ValueError:
            raise CertificateRefusedError("no PEM certificate") from None

    async def _read(self, url: str) -> bytes:
        async with self._client.stream("GET", url) as answer:
            status = answer.status_code
            if status == httpx.codes.TOO_MANY_REQUESTS or answer.is_server_error:
                raise CertificateUnavailableError(f"status {status}")
            if status != httpx.codes.OK:
                raise CertificateRefusedError(f"status {status}")
            body = bytearray()
            async for part in answer.aiter_raw():
                body += part
                if len(body) > MAX_BYTES:
                    raise CertificateRefusedError("too long")
            return bytes(body)
