"""Requests to the installation's own address: private addresses are allowed, other origins are not."""

from __future__ import annotations

import asyncio

import pytest

from mcp_app.egress import EgressFailed, EgressRefused
from mcp_app.egress.self_check import MAX_BYTES, OriginClient, SiteResponse
from tests.unit.egress.sites import Site, page, raw, redirect, serve


async def ask(site: Site, path: str = "/healthz", *, seconds: float = 5.0, **headers: str) -> SiteResponse:
    def asked() -> SiteResponse:
        with OriginClient(f"http://127.0.0.1:{site.port}/mcp", seconds=seconds) as own:
            return own.ask("GET", path, headers)

    return await asyncio.to_thread(asked)


async def test_private_own_site_is_reached_with_given_path_and_host() -> None:
    async with serve(page(b"{}", "Server: nginx")) as site:
        answer = await ask(site, Host="doctor.invalid")
        assert (answer.status, answer.body, answer.headers["server"]) == (200, b"{}", "nginx")
        assert site.requests[0].startswith("GET /healthz HTTP/1.1\r\n")
        assert site.header("host") == "doctor.invalid"


async def test_path_cannot_select_another_host() -> None:
    async with serve(page()) as site:
        await ask(site, "//doctor.invalid/x")
        assert site.header("host") == f"127.0.0.1:{site.port}"


async def test_redirect_is_returned_and_not_followed() -> None:
    async with serve(redirect("/elsewhere")) as site:
        answer = await ask(site)
        assert (answer.status, answer.headers["location"]) == (302, "/elsewhere")
        assert site.connections == 1


async def silence(writer: asyncio.StreamWriter) -> None:
    await writer.wait_closed()


async def trickle(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b".")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (silence, "No answer within"),
        (trickle, "not complete in time"),
        (page(b"x" * (MAX_BYTES + 1)), "longer than"),
        (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"), "broke off"),
        (raw(b"this is not HTTP\r\n\r\n"), "broke off"),
    ],
    ids=["silent", "endless", "oversized", "truncated", "not HTTP"],
)
async def test_invalid_or_slow_response_fails_in_time(answer: object, why: str) -> None:
    async with serve(answer) as site:  # type: ignore[arg-type]
        with pytest.raises(EgressFailed, match=why):
            await ask(site, seconds=0.3)


@pytest.mark.parametrize(
    "url", ["ftp://host/", "host", "http://", "http://ada:secret@host/", "http://host:99999/"]
)
def test_invalid_web_address_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused):
        OriginClient(url, seconds=1)
