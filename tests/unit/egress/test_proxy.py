"""Fetching behind a proxy: traffic through it, traffic past it, and refusals before it (S13)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_network

import pytest

from mcp_app.egress import EgressFailed, EgressRefused, Policy, fetch
from tests.unit.egress.sites import Names, Site, page, redirect, serve
from tests.unit.egress.test_client_tls import certificate_for

NOWHERE = Names()


@dataclass
class Proxy:
    """A proxy that records request heads and connects everything to one port."""

    port: int = 0
    asked: list[str] = field(default_factory=list)

    @property
    def lines(self) -> list[str]:
        return [head.partition("\r\n")[0] for head in self.asked]


@asynccontextmanager
async def proxy_to(site_port: int, refuses: str = "") -> AsyncIterator[Proxy]:
    """Tunnel to a local port, forward other requests to it, or refuse everything."""
    proxy = Proxy()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        proxy.asked.append(head.decode("latin-1"))
        if refuses:
            writer.write(f"HTTP/1.1 {refuses}\r\nContent-Length: 0\r\n\r\n".encode())
            writer.close()
            return
        inner, outer = await asyncio.open_connection("127.0.0.1", site_port)
        if head.startswith(b"CONNECT"):
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            outer.write(head)
        await asyncio.gather(passed_on(reader, outer), passed_on(inner, writer))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()


async def passed_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
    except ConnectionError:
        pass
    finally:
        target.close()


def use(settings, proxy: Proxy, credentials: str = "") -> None:
    address = f"http://{credentials}127.0.0.1:{proxy.port}"
    settings.MCP = {**settings.MCP, "EGRESS_PROXY": address}


def policy(site: Site, **changes: object) -> Policy:
    """Return the policy of a caller that allows no private network."""
    return site.policy(allow=frozenset(), ports=frozenset({80, 443, site.port}), **changes)


async def test_https_tunnels_through_proxy_by_host_name(settings, tmp_path) -> None:
    server, trust = certificate_for("site.example", tmp_path)
    async with serve(page(b"safe"), tls=server) as site, proxy_to(site.port) as proxy:
        use(settings, proxy, "user:pass%20word@")
        fetched = await fetch("https://site.example/doc", policy(site), resolve=NOWHERE, tls=trust)
        # The certificate is that of the named server, not of the host the proxy connects to.
        with pytest.raises(EgressFailed, match="through this server's proxy"):
            await fetch("https://other.example/doc", policy(site), resolve=NOWHERE, tls=trust)
    assert fetched.body == b"safe"
    assert proxy.lines == ["CONNECT site.example:443 HTTP/1.1", "CONNECT other.example:443 HTTP/1.1"]
    assert "/doc" not in proxy.asked[0]
    basic = base64.b64encode(b"user:pass word").decode()
    assert f"proxy-authorization: basic {basic}".lower() in proxy.asked[0].lower()
    assert site.header("proxy-authorization") is None


async def test_http_request_is_sent_to_proxy_with_absolute_url(settings) -> None:
    async with serve(page(b"plain")) as site, proxy_to(site.port) as proxy:
        use(settings, proxy)
        fetched = await fetch("http://site.example/a?b=c", policy(site), resolve=NOWHERE)
    assert fetched.body == b"plain"
    assert proxy.lines == ["GET http://site.example/a?b=c HTTP/1.1"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://10.0.0.1/",
        "http://169.254.169.254/latest/meta-data/",
        "http://[::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://127.0.0.1./",
        "http://169.254.169.254./latest/meta-data/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0177.0.0.1/",
        "http://localhost/",
        "http://localhost./",
        "http://LOCALHOST/",
        "http://a.localhost/",
        "http://proxy/",
        "http://printer.local/",
        "http://metadata.google.internal/",
        "http://metadata.google.internal./",
        "http://mcp.default.svc.cluster.local/",
        "http://router.home.arpa/",
        # This machine resolves these names to private addresses.
        "http://intranet.example/",
        "http://mixed.example/",
    ],
)
async def test_known_private_target_is_refused_before_proxy(settings, url: str) -> None:
    names = Names(intranet_example=[["10.1.2.3"]], mixed_example=[["8.8.8.8", "10.1.2.3"]])
    async with serve(page()) as site, proxy_to(site.port) as proxy:
        use(settings, proxy)
        with pytest.raises(EgressRefused):
            await fetch(url, policy(site), resolve=names)
    assert proxy.asked == []
    assert site.connections == 0


async def test_redirect_behind_proxy_is_checked_like_first_address(settings) -> None:
    async with serve(redirect("http://169.254.169.254/")) as site, proxy_to(site.port) as proxy:
        use(settings, proxy)
        with pytest.raises(EgressRefused, match="public internet"):
            await fetch("http://site.example/", policy(site), resolve=NOWHERE)
    assert len(proxy.asked) == 1


async def test_allowed_network_is_reached_without_proxy(settings) -> None:
    allowed = frozenset({ip_network("127.0.0.1/32")})
    async with serve(page(b"near")) as site, proxy_to(site.port) as proxy:
        use(settings, proxy)
        names = Names(login_example=[["127.0.0.1"]])
        for host in ("login.example", "127.0.0.1"):
            near = await fetch(f"http://{host}:{site.port}/", site.policy(allow=allowed), resolve=names)
            assert near.body == b"near"
    assert proxy.asked == []


async def test_silent_name_server_does_not_block_proxy_request(settings) -> None:
    async def silent(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async with serve(page(b"far")) as site, proxy_to(site.port) as proxy:
        use(settings, proxy)
        assert (await fetch("http://site.example/", policy(site), resolve=silent)).body == b"far"


@pytest.mark.parametrize("refusal", ["407 Proxy Authentication Required", "403 Forbidden"])
async def test_proxy_refusal_fails_without_proxy_address_or_credentials(settings, refusal) -> None:
    async with proxy_to(0, refuses=refusal) as proxy:
        use(settings, proxy, "user:hunter2@")
        with pytest.raises(EgressFailed, match="proxy of this server refused") as failed:
            await fetch("https://site.example/", resolve=NOWHERE)
    assert str(proxy.port) not in str(failed.value)
    assert "hunter2" not in str(failed.value)


async def test_unreachable_proxy_fails_and_is_named(settings) -> None:
    async with proxy_to(0) as proxy:
        use(settings, proxy)
    with pytest.raises(EgressFailed, match="proxy"):
        await fetch("https://site.example/", resolve=NOWHERE)
