"""Requests to this installation's own address, which the operator configures.

``fetch`` connects to addresses named by callers of tools, so it may only reach the public internet. Here the
address comes from the settings or the command line, and is often private. In return all other rules are
stricter: one fixed origin, no redirects, and limits on the time and bytes of each exchange.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx2

from mcp_app.egress.policy import EgressFailed, EgressRefused

MAX_BYTES = 1024 * 1024
USER_AGENT = "django-mcp"


@dataclass(frozen=True, slots=True)
class SiteResponse:
    """A complete answer. Names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Arriving:
    """An answer whose body is still being received."""

    __slots__ = ("_deadline", "_response", "headers", "status")

    def __init__(self, response: httpx2.Response, deadline: float) -> None:
        self._response = response
        self._deadline = deadline
        self.status = response.status_code
        self.headers = {name.lower(): value for name, value in response.headers.items()}

    def chunks(self) -> Iterator[bytes]:
        """Yield the undecoded body as it arrives.

        Raises EgressFailed if the body is late or too long, or if the connection breaks.
        """
        size = 0
        try:
            for chunk in self._response.iter_raw():
                size += len(chunk)
                if size > MAX_BYTES:
                    raise EgressFailed(f"The answer is longer than {MAX_BYTES // 1024} KiB.")
                yield chunk
                if time.monotonic() > self._deadline:
                    raise EgressFailed("The answer was not complete in time.")
        except httpx2.TimeoutException:
            raise EgressFailed("The answer was not complete in time.") from None
        except (httpx2.HTTPError, OSError) as error:
            raise EgressFailed(f"The connection broke off: {error}") from None


class OriginClient:
    """A client that sends requests only to the origin of ``url``.

    The end of its ``with`` block closes the connections. The constructor raises EgressRefused for an invalid
    URL.
    """

    def __init__(self, url: str, *, seconds: float) -> None:
        try:
            self._origin = httpx2.URL(url)
        except (httpx2.InvalidURL, UnicodeError, ValueError):
            raise EgressRefused("This is not a well-formed web address.") from None
        if self._origin.scheme not in ("http", "https") or not self._origin.host or self._origin.userinfo:
            raise EgressRefused("Give an http or https address without a user name or password.")
        if not 0 < (self._origin.port or 80) < 65536:
            raise EgressRefused(f"{self._origin.port} is not a port.")
        self._seconds = seconds
        # The bare transport follows no redirects, stores no cookies, uses no proxy and logs nothing.
        self._transport = httpx2.HTTPTransport(verify=ssl.create_default_context(), trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._transport.close()

    def ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> SiteResponse:
        """Send a request and return the complete answer. Raises EgressFailed if there is none in time."""
        with self.open(method, path, headers, body) as arriving:
            return SiteResponse(arriving.status, arriving.headers, b"".join(arriving.chunks()))

    @contextmanager
    def open(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> Iterator[Arriving]:
        """Send a request and yield the answer as soon as its headers have arrived.

        The answer is closed at the end of ``with``. Raises EgressFailed if no answer arrives in time.
        """
        deadline = time.monotonic() + self._seconds
        # The path is replaced, not joined: a joined path could name another host.
        address = self._origin.copy_with(path=path, query=None, fragment=None)
        timeout = httpx2.Timeout(self._seconds).as_dict()
        given = {"User-Agent": USER_AGENT, **(headers or {})}
        request = httpx2.Request(
            method, address, headers=given, content=body, extensions={"timeout": timeout}
        )
        try:
            response = self._transport.handle_request(request)
        except httpx2.TimeoutException:
            raise EgressFailed(f"No answer within {self._seconds:g} seconds.") from None
        except (httpx2.HTTPError, OSError) as error:
            raise EgressFailed(f"No connection, or it broke off: {error}") from None
        try:
            yield Arriving(response, deadline)
        finally:
            response.close()
