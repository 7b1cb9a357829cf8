"""The guarded fetch against real loopback servers, with a canary that must receive nothing (S10, S13)."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib
from ipaddress import ip_network

import pytest

from mcp_app.egress import EgressFailed, EgressRefused, Policy, Sent, fetch
from mcp_app.egress.client import METHODS
from tests.unit.egress.sites import Names, page, raw, redirect, serve

HOME = Names(site_test=[["127.0.0.1"]], other_test=[["127.0.0.1"]])


async def test_page_is_returned_with_status_type_and_url() -> None:
    async with serve(page(b"caf\xe9", status="404 Not Found", kind="Text/HTML; Charset=ISO-8859-1")) as site:
        url = f"http://site.test:{site.port}/a?b=%20c#part"
        fetched = await fetch(url, site.policy(), resolve=HOME)
    assert (fetched.status, fetched.content_type, fetched.charset) == (404, "text/html", "iso-8859-1")
    assert (fetched.body, fetched.url) == (b"caf\xe9", url)
    assert site.requests[0].startswith("GET /a?b=%20c HTTP/1.1\r\n")
    assert site.header("host") == f"site.test:{site.port}"


async def test_request_has_only_neutral_headers_and_offers_gzip() -> None:
    async with serve(page()) as site:
        await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)
    names = {line.partition(":")[0].lower() for line in site.requests[0].split("\r\n")[1:] if line}
    assert names == {"host", "user-agent", "accept", "accept-encoding", "connection"}
    assert site.header("accept-encoding") == "gzip"


async def test_private_address_is_refused_by_default() -> None:
    async with serve(page()) as canary:
        for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "2130706433", "0x7f.1", "127.1", "0"):
            with pytest.raises(EgressRefused):
                await fetch(f"http://{host}:{canary.port}/", canary.policy(allow=frozenset()))
    assert canary.connections == 0


async def test_connection_uses_checked_address_despite_dns_rebinding() -> None:
    rebinding = Names(site_test=[["127.0.0.1"], ["127.0.0.9"]])
    async with serve(page()) as site:
        policy = site.policy(allow=frozenset({ip_network("127.0.0.1/32")}))
        await fetch(f"http://site.test:{site.port}/", policy, resolve=rebinding)
    assert rebinding.lookups == [("site.test", site.port)]


async def test_dns_rebinding_between_redirects_is_refused() -> None:
    # 127.0.0.1 plays the public address, 127.0.0.2 the private one; the listener accepts both.
    rebinding = Names(site_test=[["127.0.0.1"], ["127.0.0.2"]])
    async with serve(redirect("/again"), page()) as site:
        with pytest.raises(EgressRefused, match="public internet"):
            await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=rebinding)
    assert site.connections == 1


@pytest.mark.parametrize(
    "place",
    [
        "http://127.0.0.2:{port}/",
        "http://[::1]:{port}/",
        "http://[::ffff:7f00:2]:{port}/",
        "http://10.0.0.1:{port}/",
        "http://169.254.169.254:{port}/latest/meta-data/",
        "http://[64:ff9b::7f00:1]:{port}/",
        "http://0x7f.2:{port}/",
        "//127.0.0.2:{port}/",
        "http://user@site.test:{port}/",
        "http://site.test:{port}@127.0.0.2/",
        "http://site.test:6379/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:{port}/",
        "http://inside.test:{port}/",
        "http://mixed.test:{port}/",
        "http://site.test\\@127.0.0.2/",
        "http://[::1",
        "/a\tb",
    ],
)
async def test_redirect_target_is_checked_like_first_address(place: str) -> None:
    resolve = Names(
        site_test=[["127.0.0.1"]], inside_test=[["127.0.0.2"]], mixed_test=[["127.0.0.1", "127.0.0.2"]]
    )
    async with serve(page()) as canary, serve(redirect(place.format(port=canary.port))) as site:
        policy = site.policy(ports=frozenset({site.port, canary.port}))
        with pytest.raises(EgressRefused):
            await fetch(f"http://site.test:{site.port}/", policy, resolve=resolve)
    assert (site.connections, canary.connections) == (1, 0)


@pytest.mark.parametrize(
    "status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"]
)
async def test_redirect_is_resolved_relative_to_its_source(status: str) -> None:
    async with serve(redirect("../b?c#d", status), page(b"there")) as site:
        fetched = await fetch(f"http://site.test:{site.port}/x/a", site.policy(), resolve=HOME)
    assert (fetched.body, fetched.url) == (b"there", f"http://site.test:{site.port}/b?c#d")


async def test_redirects_are_followed_up_to_limit() -> None:
    for hops, reached in ((5, True), (6, False)):
        async with serve(*[redirect("/next")] * hops, page(b"end")) as site:
            url = f"http://site.test:{site.port}/"
            if reached:
                assert (await fetch(url, site.policy(), resolve=HOME)).body == b"end"
            else:
                with pytest.raises(EgressRefused, match="more than 5 times"):
                    await fetch(url, site.policy(), resolve=HOME)
            assert site.connections == 6


async def test_cookie_and_referer_are_not_sent_after_redirect() -> None:
    moved = raw(b"HTTP/1.1 302 Found\r\nLocation: /\r\nSet-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")
    async with serve(moved, page()) as site:
        await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)
    assert site.header("cookie", 1) is None
    assert site.header("referer", 1) is None


async def test_environment_proxies_and_netrc_are_ignored(monkeypatch, tmp_path) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine site.test login planted password planted\n")
    async with serve(page()) as canary, serve(page(b"direct")) as site:
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{canary.port}")
        monkeypatch.setenv("NETRC", str(netrc))
        fetched = await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)
    assert fetched.body == b"direct"
    assert canary.connections == 0
    assert site.header("authorization") is None


async def test_next_address_is_tried_if_first_is_unreachable() -> None:
    resolve = Names(site_test=[["127.0.0.3", "127.0.0.1"]])
    async with serve(page(b"second")) as site:
        policy = site.policy(allow=frozenset({ip_network("127.0.0.0/30")}))
        fetched = await fetch(f"http://site.test:{site.port}/", policy, resolve=resolve)
    assert fetched.body == b"second"


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n"


async def test_body_is_read_up_to_raw_limit() -> None:
    for size, read in ((1_000, True), (1_001, False)):
        for answer in (page(b"x" * size), raw(CHUNKED + b"\r\n" + chunked(b"x" * size) + b"0\r\n\r\n")):
            async with serve(answer) as site:
                request = fetch(
                    f"http://site.test:{site.port}/", site.policy(max_raw_bytes=1_000), resolve=HOME
                )
                if read:
                    assert len((await request).body) == size
                else:
                    with pytest.raises(EgressRefused, match="larger"):
                        await request


async def test_decompressed_body_is_read_up_to_limit() -> None:
    for size, read in ((100_000, True), (100_001, False)):
        async with serve(page(gzip.compress(b"x" * size), "Content-Encoding: gzip")) as site:
            request = fetch(f"http://site.test:{site.port}/", site.policy(max_bytes=100_000), resolve=HOME)
            if read:
                assert (await request).body == b"x" * size
            else:
                with pytest.raises(EgressRefused, match="larger"):
                    await request


async def test_decompression_bomb_is_stopped_at_limit() -> None:
    squeeze = zlib.compressobj(9, wbits=31)
    bomb = b"".join(squeeze.compress(bytes(1 << 20)) for _ in range(512)) + squeeze.flush()
    async with serve(page(bomb, "Content-Encoding: gzip")) as site:
        started = time.monotonic()
        with pytest.raises(EgressRefused, match="larger"):
            await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd", "deflate", "compress", "gzip, identity"])
async def test_unoffered_content_coding_is_refused(coding: str) -> None:
    async with serve(page(gzip.compress(b"x"), f"Content-Encoding: {coding}")) as site:
        with pytest.raises(EgressRefused, match="coding"):
            await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)


# Explicit ids, because the bytes of a gzip file start with its creation time.
@pytest.mark.parametrize(
    "body", [b"not gzip", gzip.compress(b"x" * 5_000)[:-9], b""], ids=["not gzip", "truncated", "empty"]
)
async def test_damaged_compressed_body_fails(body: bytes) -> None:
    async with serve(page(body, "Content-Encoding: gzip")) as site:
        with pytest.raises(EgressFailed, match="compressed"):
            await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)


async def test_endless_body_is_refused_at_limit() -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(CHUNKED + b"\r\n")
        while True:
            writer.write(chunked(b"x" * 65_536))
            await writer.drain()

    async with serve(endless) as site:
        with pytest.raises(EgressRefused, match="larger"):
            await fetch(f"http://site.test:{site.port}/", site.policy(max_raw_bytes=1 << 20), resolve=HOME)


async def drip(writer: asyncio.StreamWriter) -> None:
    for _ in range(200):
        writer.write(chunked(b"x"))
        await writer.drain()
        await asyncio.sleep(0.05)


async def slow_body(writer: asyncio.StreamWriter) -> None:
    writer.write(CHUNKED + b"\r\n")
    await drip(writer)


async def slow_head(writer: asyncio.StreamWriter) -> None:
    for byte in CHUNKED * 10:
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


async def endless_interim(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"HTTP/1.1 103 Early Hints\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("answer", [slow_body, slow_head, endless_interim])
async def test_slow_response_fails_at_deadline(answer) -> None:
    async with serve(answer) as site:
        started = time.monotonic()
        with pytest.raises(EgressFailed, match=r"0\.3 seconds"):
            await fetch(f"http://site.test:{site.port}/", site.policy(seconds=0.3), resolve=HOME)
    assert time.monotonic() - started < 1.5


async def test_deadline_covers_name_lookup_and_all_redirects() -> None:
    async def never(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(EgressFailed, match="seconds"):
        await fetch("http://site.test/", Policy(seconds=0.1), resolve=never)

    async def pause(writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.12)
        await redirect("/")(writer)

    async with serve(pause) as site:
        with pytest.raises(EgressFailed, match="seconds"):
            await fetch(f"http://site.test:{site.port}/", site.policy(seconds=0.3), resolve=HOME)
    assert 1 < site.connections < 5


@pytest.mark.parametrize(
    "kind", ["image/png", "application/octet-stream", "text/htmlx", "", "text/event-stream"]
)
async def test_non_text_content_type_is_refused(kind: str) -> None:
    async with serve(page(b"x", kind=kind)) as site:
        with pytest.raises(EgressRefused, match="not of a type that is read here: application/atom"):
            await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"x" * 200_000,
        CHUNKED + b"\r\nzz\r\n",
        b"+PONG\r\n",
    ],
)
async def test_non_http_response_fails_without_quotation(answer: bytes) -> None:
    async with serve(raw(answer)) as site:
        with pytest.raises(EgressFailed) as failure:
            await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)
    assert str(failure.value) == "The server broke off or did not speak HTTP. Try again later."


async def test_closed_port_fails_without_naming_address() -> None:
    async with serve(page()) as site:
        pass
    with pytest.raises(EgressFailed, match="connection") as failure:
        await fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME)
    assert "127" not in str(failure.value)


async def test_cancelled_fetch_closes_its_connection() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def hold(writer: asyncio.StreamWriter) -> None:
        asked.set()
        try:
            await slow_head(writer)
        finally:
            closed.set()

    async with serve(hold) as site:
        task = asyncio.create_task(fetch(f"http://site.test:{site.port}/", site.policy(), resolve=HOME))
        await asyncio.wait_for(asked.wait(), 2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(closed.wait(), 2)


@pytest.mark.parametrize("method", sorted(METHODS))
async def test_request_of_each_method_returns_status_headers_and_body(method: str) -> None:
    body = b"" if method in ("GET", "HEAD") else b'{"a": 1}'
    given = {"Accept": "application/json", "x-trace": "7", "Content-Type": "application/json"}
    answer = raw(b"HTTP/1.1 202 Accepted\r\nX-Left: 3\r\nX-Left: 4\r\nContent-Length: 0\r\n\r\n")
    async with serve(answer) as site:
        policy = site.policy(max_redirects=0, content_types=None)
        sent = Sent(method, given, body or None)
        got = await fetch(f"http://site.test:{site.port}/items?b=%20c", policy, sent=sent, resolve=HOME)
    assert (got.status, got.headers["x-left"], got.body) == (202, "3, 4", b"")
    assert site.requests[0].startswith(f"{method} /items?b=%20c HTTP/1.1\r\n")
    assert {name: site.header(name.lower()) for name in given} == given
    assert site.header("content-length") == (str(len(body)) if body else None)
    assert site.header("host") == f"site.test:{site.port}"


@pytest.mark.parametrize(
    ("method", "headers", "reason"),
    [
        ("CONNECT", {}, "CONNECT is not a method"),
        ("get", {}, "get is not a method"),
        ("GET / HTTP/1.1\r\nX: ", {}, "is not a method"),
        ("GET", {"Host": "inside.test"}, "Host is set by this server"),
        ("GET", {"hOST": "inside.test"}, "hOST is set by this server"),
        ("POST", {"Transfer-Encoding": "chunked"}, "set by this server"),
        ("POST", {"content-length": "5"}, "set by this server"),
        ("GET", {"X-A": "1\r\nHost: inside.test"}, "cannot be sent"),
        ("GET", {"X-A\r\nHost": "inside.test"}, "cannot be sent"),
        ("GET", {"X-A": "caf\xe9"}, "cannot be sent"),
        ("GET", {"": "x"}, "cannot be sent"),
    ],
)
async def test_request_that_changes_its_connection_is_refused(
    method: str, headers: dict[str, str], reason: str
) -> None:
    async with serve(page()) as canary:
        sent, policy = Sent(method, headers), canary.policy(max_redirects=0)
        with pytest.raises(EgressRefused, match=reason):
            await fetch(f"http://site.test:{canary.port}/", policy, sent=sent, resolve=HOME)
    assert canary.connections == 0


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"max_raw_bytes": 1024}, "larger than the 1 KiB"),
        ({"allow": frozenset()}, "public internet"),
        ({"ports": frozenset({443})}, "is not open for fetching"),
        ({"content_types": frozenset({"text/plain"})}, "type that is read here: text/plain"),
    ],
)
async def test_sent_request_is_bound_by_policy(changes: dict[str, object], reason: str) -> None:
    async with serve(page(b"x" * 2000)) as site:
        policy = site.policy(**{"max_redirects": 0, **changes})
        with pytest.raises(EgressRefused, match=reason):
            await fetch(f"http://site.test:{site.port}/", policy, sent=Sent("PUT", {}, b"x"), resolve=HOME)


async def test_sent_request_follows_no_redirect() -> None:
    sent = Sent("DELETE", {})
    async with serve(redirect("/other")) as site:
        url = f"http://site.test:{site.port}/"
        with pytest.raises(EgressRefused, match="redirects more than 0 times"):
            await fetch(url, site.policy(max_redirects=0), sent=sent, resolve=HOME)
        with pytest.raises(ValueError, match="allow no redirects"):
            await fetch(url, site.policy(), sent=sent, resolve=HOME)
    assert site.connections == 1
